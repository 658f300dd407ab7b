"""Why a structured output cannot be honoured."""

from __future__ import annotations


class GrammarRefused(ValueError):
    """The message is one line that goes on from the name of the field."""
