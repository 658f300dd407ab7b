"""What requests cost their tenants: charged when admitted, corrected by what turns out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from dspark.scheduler.fairness.output_lengths import OutputLengths
from dspark.scheduler.fairness.tenant_accounts import TenantAccounts
from dspark.scheduler.request import Request, Share


class Charges:
    """Every request from ``hold`` to ``settle``; a tenant's account lives as long as one of them.

    A request costs the prompt tokens that have to be computed and the tokens that are generated. It
    is charged once: that it had to give way and is computed again is not its tenant's doing.
    """

    def __init__(self, lengths: OutputLengths) -> None:
        self._lengths = lengths
        self._accounts: TenantAccounts[Share] = TenantAccounts()
        self._held: defaultdict[Share, set[Request]] = defaultdict(set)
        self._charged: dict[Request, float] = {}

    def __len__(self) -> int:
        """How many accounts there are."""
        return len(self._accounts)

    def hold(self, request: Request, waiting: Collection[Share]) -> None:
        """The request waits from now on, beside those of ``waiting``."""
        if request.share not in waiting:
            self._accounts.open(request.share, waiting)
        self._held[request.share].add(request)

    def charge(self, request: Request, waiting: Collection[Share]) -> float:
        """The request is admitted while tenants ``waiting`` wait; returns the tokens charged."""
        if request in self._charged:
            return 0.0
        self._charged[request] = tokens = float(self._guess(request))
        self._accounts.charge(request.share, tokens, waiting)
        return tokens

    def correct(self, request: Request) -> None:
        """More is known of a running request, such as how much of its prompt was cached."""
        if request in self._charged:
            self._set(request, float(self._guess(request)))

    def settle(self, request: Request) -> None:
        """The request has left, and costs what it used; harmless if it was not held."""
        if request in self._charged:
            self._set(request, float(_uncached(request) + request.num_generated_tokens))
            del self._charged[request]
        held = self._held.get(request.share)
        if held is not None:
            held.discard(request)
            if not held:
                del self._held[request.share]
                self._accounts.close(request.share)

    def round_of(self, share: Share) -> int:
        """The lower, the sooner it is the tenant's turn."""
        return self._accounts.round_of(share)

    def _guess(self, request: Request) -> int:
        return _uncached(request) + self._lengths.expected(request)

    def _set(self, request: Request, tokens: float) -> None:
        self._accounts.charge(request.share, tokens - self._charged[request])
        self._charged[request] = tokens


def _uncached(request: Request) -> int:
    return request.num_prompt_tokens - (request.num_cached_tokens or 0)
