"""What requests cost their tenants: the prompt when admitted, each token when it is generated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from dspark.scheduler.fairness.tenant_accounts import TenantAccounts
from dspark.scheduler.request import Request, Share


class Charges:
    """Every request from ``hold`` to ``settle``; a tenant's account lives as long as one of them.

    A request costs the prompt tokens that have to be computed and the tokens that are generated.
    That it had to give way and is computed again is not its tenant's doing. Outputs are charged as
    they come: were they charged ahead, who begins with many long ones would be owed turns while
    they run.
    """

    def __init__(self) -> None:
        self._accounts: TenantAccounts[Share] = TenantAccounts()
        self._held: defaultdict[Share, set[Request]] = defaultdict(set)
        self._charged: dict[Request, int] = {}

    def __len__(self) -> int:
        """How many accounts there are."""
        return len(self._accounts)

    def hold(self, request: Request, waiting: Collection[Share]) -> None:
        """The request waits from now on, beside those of ``waiting``."""
        if request.share not in waiting:
            self._accounts.open(request.share, waiting)
        self._held[request.share].add(request)

    def charge(self, request: Request, waiting: Collection[Share]) -> bool:
        """The request is admitted while tenants ``waiting`` wait; False if it was before."""
        if request in self._charged:
            return False
        self._charged[request] = cost = _cost(request)
        self._accounts.charge(request.share, cost, waiting)
        return True

    def correct(self, request: Request) -> None:
        """An admitted request has got further, or part of its prompt turned out to be cached."""
        if request in self._charged:
            cost = _cost(request)
            self._accounts.charge(request.share, cost - self._charged[request])
            self._charged[request] = cost

    def settle(self, request: Request) -> None:
        """The request has left; harmless if it was not held."""
        self.correct(request)
        self._charged.pop(request, None)
        held = self._held.get(request.share)
        if held is not None:
            held.discard(request)
            if not held:
                del self._held[request.share]
                self._accounts.close(request.share)

    def round_of(self, share: Share) -> int:
        """The lower, the sooner it is the tenant's turn."""
        return self._accounts.round_of(share)


def _cost(request: Request) -> int:
    return request.num_uncached_tokens + request.num_generated_tokens
