"""Which tenants were here lately, so that a place can be kept for when they come back."""

from __future__ import annotations

from collections.abc import Container

RECENT_S = 600.0
# More are not remembered: no more places are kept than this anyway.
MAX_TENANTS = 64


class RecentTenants:
    """``seen`` is called for each request that comes; times are seconds of one clock."""

    def __init__(self) -> None:
        # by when they were seen last, the earliest first
        self._seen: dict[str, float] = {}

    def seen(self, tenant: str, now: float) -> None:
        self._seen.pop(tenant, None)
        self._seen[tenant] = now
        if len(self._seen) > MAX_TENANTS:
            del self._seen[next(iter(self._seen))]

    def num_besides(self, others: Container[str], now: float) -> int:
        """How many there are that are not among the ``others``."""
        return sum(
            tenant not in others and now - at <= RECENT_S for tenant, at in self._seen.items()
        )
