"""What ends a training with one line."""

from __future__ import annotations


class TrainingFailed(Exception):
    """The message is one line that says why."""
