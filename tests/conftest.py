"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# A loaded machine must not fail a test by being slow, and a failure must come back on a second run.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")
