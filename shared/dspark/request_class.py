"""How soon somebody waits for a request's tokens."""

from __future__ import annotations

from enum import Enum


class RequestClass(Enum):
    """Interactive requests go before batch requests, which keep a guaranteed share."""

    INTERACTIVE = "interactive"
    BATCH = "batch"

    @property
    def rank(self) -> int:
        """Smaller goes first."""
        return _RANKS[self]


_RANKS = {each: rank for rank, each in enumerate(RequestClass)}
