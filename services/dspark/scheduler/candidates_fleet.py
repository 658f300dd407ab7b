"""The candidates services of a scheduler, and which of them each worker's link asks."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Protocol

from dspark.circuit_breaker import BreakerState, CircuitBreaker
from dspark.clock import monotonic
from dspark.errors import DSparkError
from dspark.proposal import CandidatesInfo, CandidatesUpdate, ProposeItem, ProposeOutcome
from dspark.scheduler.candidates_choice import ServiceView, choose_service
from dspark.scheduler.candidates_link import Candidates, CandidatesLink
from dspark.scheduler.stats import MovingAverage
from dspark.service_addresses import UNIX

log = logging.getLogger(__name__)

TICK_S = 0.25
# Ticks from one look at whether services answer to the next.
PROBE_TICKS = 4
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


class ClosableCandidates(Candidates, Protocol):
    """What the fleet needs of a client."""

    async def close(self) -> None: ...


class CandidatesSite:
    """One service: a client that measures what its calls take."""

    def __init__(self, name: str, client: ClosableCandidates, *, is_near: bool) -> None:
        self.name = name
        self.is_near = is_near
        # None while it does not answer
        self.last_info: CandidatesInfo | None = None
        self.propose_ms: MovingAverage | None = None
        self._client = client

    async def info(self) -> CandidatesInfo:
        try:
            self.last_info = await self._client.info()
        except DSparkError:
            self.last_info = None
            raise
        return self.last_info

    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        timeout_s: float,
        traceparents: Sequence[str] = (),
    ) -> ProposeOutcome:
        started = monotonic()
        outcome = await self._client.propose(update, items, timeout_s, traceparents)
        took_ms = (monotonic() - started) * 1e3
        if self.propose_ms is None:
            self.propose_ms = MovingAverage(took_ms)
        self.propose_ms.add(took_ms)
        return outcome

    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]:
        return await self._client.observe(update, timeout_s)

    async def close(self) -> None:
        await self._client.close()


class CandidatesFleet:
    """Follows the addresses; each link asks one service, and turns to another when that is better.

    A link has a breaker of its own for each service. One that opens makes the link turn away; when
    its pause is over and the service answers, the link may come back, for a trial.
    """

    def __init__(
        self,
        addresses: Callable[[], AsyncIterator[Collection[str]]],
        client_for: Callable[[str], ClosableCandidates],
        new_breaker: Callable[[], CircuitBreaker],
        propose_deadline_s: float,
        is_near: Callable[[str], bool] | None = None,
    ) -> None:
        self._addresses = addresses
        self._client_for = client_for
        self._new_breaker = new_breaker
        self._deadline_s = propose_deadline_s
        self._is_near = is_near or _near_this_host
        self._sites: dict[str, CandidatesSite] = {}
        # No address names them any more.
        self._gone: set[str] = set()
        self._links: dict[CandidatesLink, str | None] = {}
        self._around: dict[CandidatesLink, Callable[[Candidates], Candidates]] = {}
        self._breakers: dict[tuple[CandidatesLink, str], CircuitBreaker] = {}

    def new_link(self, around: Callable[[Candidates], Candidates]) -> CandidatesLink:
        """A link to the best service now, or soon; ``around`` is put between the two."""
        link = CandidatesLink(None, self._new_breaker(), self._deadline_s)
        self._links[link] = None
        self._around[link] = around
        self._settle(link)
        return link

    async def close_link(self, link: CandidatesLink) -> None:
        del self._links[link], self._around[link]
        self._breakers = {k: breaker for k, breaker in self._breakers.items() if k[0] is not link}
        await link.close()

    def service_of(self, link: CandidatesLink) -> str | None:
        """The address of the service that it asks."""
        return self._links[link]

    async def run(self) -> None:
        """Follow addresses and answers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_addresses())
            tasks.create_task(self._tick())

    async def close(self) -> None:
        for site in self._sites.values():
            await site.close()

    async def _follow_addresses(self) -> None:
        async for names in self._addresses():
            for name in names:
                if name not in self._sites:
                    client, is_near = self._client_for(name), self._is_near(name)
                    self._sites[name] = CandidatesSite(name, client, is_near=is_near)
            self._gone = {name for name in self._sites if name not in names}
            self._settle_all()
            await self._forget_gone()

    async def _forget_gone(self) -> None:
        """A service that no address names is asked on while there is no other."""
        for name in self._gone.difference(self._links.values()):
            self._breakers = {k: b for k, b in self._breakers.items() if k[1] != name}
            await self._sites.pop(name).close()
        self._gone.intersection_update(self._sites)

    async def _tick(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(TICK_S)
            ticks += 1
            if ticks % PROBE_TICKS == 0 and len(self._sites) > 1:
                await asyncio.gather(*map(_probe, tuple(self._sites.values())))
            self._settle_all()
            await self._forget_gone()

    def _settle_all(self) -> None:
        for link in tuple(self._links):
            self._settle(link)

    def _settle(self, link: CandidatesLink) -> None:
        present = self._links[link]
        views = [self._view(link, site) for site in self._sites.values()]
        name = choose_service(views, present)
        if name is None or name == present:
            return
        site = self._sites[name]
        if present is not None:
            log.warning("a verifier's candidates are now those at %s, not at %s", name, present)
        self._links[link] = name
        link.turn_to(self._around[link](site), self._breaker(link, name), site.last_info)

    def _view(self, link: CandidatesLink, site: CandidatesSite) -> ServiceView:
        is_open = self._breaker(link, site.name).state is BreakerState.OPEN
        is_present = self._links[link] == site.name
        # One that did not answer when it was asked last is not turned to.
        is_silent = site.last_info is None and not is_present and self._links[link] is not None
        others = [name for other, name in self._links.items() if other is not link]
        propose_ms = None if site.propose_ms is None else site.propose_ms.value
        is_refused = is_open or is_silent or site.name in self._gone
        return ServiceView(site.name, site.is_near, is_refused, propose_ms, others.count(site.name))

    def _breaker(self, link: CandidatesLink, name: str) -> CircuitBreaker:
        return self._breakers.setdefault((link, name), self._new_breaker())


async def _probe(site: CandidatesSite) -> None:
    try:
        await site.info()
    except DSparkError:
        # The site remembers that it does not answer.
        return


def _near_this_host(address: str) -> bool:
    """Whether an address is on this machine, as far as its text tells."""
    if address.startswith(UNIX):
        return True
    host = address.rpartition(":")[0]
    return host in _LOCAL_HOSTS or host == socket.gethostname()
