"""What each tenant has used, in tokens, so that those who have used least go next.

This is deficit round robin (Shreedhar and Varghese, 1995) with accounts in place of a ring, as in
the virtual token counter (Sheng et al., 2024): a tenant is charged when a request of it is
admitted and as tokens are generated, and may go on while its account is in the lowest round.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

Tenant = TypeVar("Tenant", bound=Hashable)
# Tokens of a round: accounts that differ by less are equal.
QUANTUM = 32


class TenantAccounts(Generic[Tenant]):
    """Accounts exist from ``open`` to ``close``."""

    def __init__(self) -> None:
        self._spent: dict[Tenant, float] = {}
        # what the waiting tenants had spent on average when one of them was charged last
        self._mean = 0.0

    def __len__(self) -> int:
        return len(self._spent)

    def open(self, tenant: Tenant, waiting: Collection[Tenant]) -> None:
        """The tenant begins to wait beside ``waiting``: what it did not use before is forgone.

        It starts at their mean, not at the least of them: else new tenants, as they come and
        come, would keep one waiting that has used a little more.
        """
        self._note_mean(waiting)
        self._spent[tenant] = max(self._spent.get(tenant, self._mean), self._mean)

    def charge(self, tenant: Tenant, tokens: float, waiting: Collection[Tenant] = ()) -> None:
        """Add to the account; ``waiting`` has the tenants that wait as one is admitted."""
        self._note_mean(waiting)
        self._spent[tenant] += tokens

    def close(self, tenant: Tenant) -> None:
        self._spent.pop(tenant, None)

    def spent(self, tenant: Tenant) -> float:
        return self._spent[tenant]

    def round_of(self, tenant: Tenant) -> int:
        """Lower goes first."""
        return int(self._spent[tenant] // QUANTUM)

    def _note_mean(self, waiting: Collection[Tenant]) -> None:
        if waiting:
            self._mean = sum(self._spent[tenant] for tenant in waiting) / len(waiting)
