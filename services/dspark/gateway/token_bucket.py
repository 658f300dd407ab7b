"""A rate of tokens that may be borrowed from, and never for long (pure)."""

from __future__ import annotations


class TokenBucket:
    """Holds at most a minute's tokens; times are seconds of any clock that only goes forward.

    What is used may exceed what it holds: how long an answer gets is known at its end only. The
    debt is waited for before the next request, so over a long time the rate is kept.
    """

    def __init__(self, tokens_per_minute: int, now: float) -> None:
        self._per_minute = tokens_per_minute
        self._level = float(tokens_per_minute)
        self._at = now

    def set_rate(self, tokens_per_minute: int, now: float) -> None:
        self._refill(now)
        self._per_minute = tokens_per_minute
        self._level = min(self._level, tokens_per_minute)

    def spend(self, num_tokens: int, now: float) -> None:
        self._refill(now)
        self._level -= num_tokens

    def wait_s(self, now: float) -> float:
        """The time until a token is there; 0 if one is there now."""
        self._refill(now)
        return 0.0 if self._level >= 1 else (1 - self._level) * 60 / self._per_minute

    def _refill(self, now: float) -> None:
        gained = (now - self._at) * self._per_minute / 60
        self._level = min(self._level + gained, self._per_minute)
        self._at = now
