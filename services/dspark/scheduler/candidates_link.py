"""The candidates service as drafting sees it: it may answer, no step waits beyond a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from dspark.background_task import end
from dspark.circuit_breaker import BreakerState, CircuitBreaker
from dspark.clock import monotonic
from dspark.errors import DSparkError
from dspark.log_limiter import LogLimiter
from dspark.proposal import CandidatesInfo, CandidatesUpdate, ProposeItem, ProposeOutcome
from dspark.scheduler.candidate_graph import CandidateGraph, Delivery
from dspark.scheduler.request import Request
from dspark.scheduler.step_trace import traceparents_of

log = logging.getLogger(__name__)

OBSERVE_TIMEOUT_S = 2.0
# New tokens ride on the next Propose; without one for this many steps they are sent on their own.
OBSERVE_INTERVAL = 16
INFO_BACKOFF_S = (0.1, 5.0)
INFO_INTERVAL_S = 1.0
# What sources cost changes slowly; it is asked for this often while candidates are in use.
RATES_INTERVAL_S = 10.0


class Candidates(Protocol):
    """What the link needs of a client."""

    async def info(self) -> CandidatesInfo: ...
    async def propose(
        self,
        update: CandidatesUpdate,
        items: Sequence[ProposeItem],
        timeout_s: float,
        traceparents: Sequence[str] = (),
    ) -> ProposeOutcome: ...
    async def observe(self, update: CandidatesUpdate, timeout_s: float) -> tuple[str, ...]: ...


class CandidatesLink:
    """One service behind a circuit breaker; one call at a time, so updates arrive in order.

    Two waves of a verifier share it: a call waits until that of the other one is over, which has
    the same deadline. It may turn to another service at any moment. What then comes from the one
    before is dropped.
    """

    def __init__(
        self, client: Candidates | None, breaker: CircuitBreaker, propose_deadline_s: float
    ) -> None:
        """Without a client there is nobody to ask before ``turn_to``."""
        self.graph = CandidateGraph()
        self.info: CandidatesInfo | None = None
        self._client = client
        self._breaker = breaker
        self._deadline_s = propose_deadline_s
        self._observing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._is_proposing = False
        self._connecting: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._steps_since_update = 0
        self._limiter = LogLimiter()
        self._asked_info_at = 0.0
        # calls that failed or came too late
        self.num_failures = 0
        # times that it turned from one service to another
        self.num_turns = 0

    def turn_to(
        self, client: Candidates, breaker: CircuitBreaker, info: CandidatesInfo | None
    ) -> None:
        """Ask another service from now on, to which all sequences are new."""
        for task in (self._connecting, self._observing):
            if task is not None:
                task.cancel()
        self._connecting = self._observing = None
        if self._client is not None:
            self.num_turns += 1
            farewell = _take_leave(self._client, self.graph.last_update())
            self._leaving = asyncio.create_task(farewell)
        self._client, self._breaker, self.info = client, breaker, info
        self.graph = CandidateGraph()
        self.connect()

    def connect(self) -> None:
        """Learn in the background which sources run."""
        if self._client is None:
            return
        if self._connecting is None or self._connecting.done():
            self._asked_info_at = monotonic()
            self._connecting = asyncio.create_task(self._connect(self._client))

    async def close(self) -> None:
        tasks = (self._connecting, self._observing, self._leaving)
        await end(task for task in tasks if task is not None)

    @property
    def breaker_state(self) -> BreakerState:
        return self._breaker.state

    @property
    def is_usable(self) -> bool:
        return self.info is not None and not self._breaker.seconds_to_trial

    def runs(self, sources: Iterable[str]) -> bool:
        """Whether these are sources that the worker named; if not, it is asked anew."""
        known = self.info.sources if self.info is not None else ()
        if set(known).issuperset(sources):
            return True
        if monotonic() - self._asked_info_at > INFO_INTERVAL_S:
            self.connect()
        return False

    async def propose(
        self, items: Sequence[ProposeItem], requests: Sequence[Request]
    ) -> ProposeOutcome | None:
        """Candidates for the items, or None when there are none in time."""
        started, had_to_wait = monotonic(), self._is_proposing
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._turn.acquire()
        except TimeoutError:
            return None
        self._is_proposing = True
        try:
            began = monotonic() if had_to_wait else started
            return await self._propose(items, requests, began + self._deadline_s)
        finally:
            self._is_proposing = False
            self._turn.release()

    async def _propose(
        self, items: Sequence[ProposeItem], requests: Sequence[Request], give_up_at: float
    ) -> ProposeOutcome | None:
        client, graph = self._client, self.graph
        if client is None:
            return None
        delivery = graph.next_update(requests, whole=False)
        self._steps_since_update = 0
        try:
            # gRPC refuses a deadline that is over, so a millisecond is always left.
            timeout_s = max(give_up_at - monotonic(), 0.001)
            outcome = await client.propose(
                delivery.update, items, timeout_s, traceparents_of(requests)
            )
        except Exception as error:
            self._failed(graph, delivery, error)
            return None
        if graph is not self.graph:
            return None
        graph.delivered(delivery, outcome.unknown_request_ids)
        self._close_breaker()
        if monotonic() - self._asked_info_at > RATES_INTERVAL_S:
            self.connect()
        return outcome

    def observe_in_background(self, requests: Sequence[Request]) -> None:
        """Send what no Propose is going to carry soon: new sequences, ends, and old news.

        Of ``requests`` those count that are there, and that candidates may know of, when it is the
        turn of the call.
        """
        self._steps_since_update += 1
        if not self.is_usable or self._client is None or self._is_observing():
            return
        is_due = (
            self.graph.has_ends
            or (self._steps_since_update >= OBSERVE_INTERVAL and bool(requests))
            or any(not self.graph.knows(request) for request in _speculating(requests))
        )
        if is_due:
            self._steps_since_update = 0
            observation = self._observe(self._client, self.graph, requests)
            self._observing = asyncio.create_task(observation)

    async def _observe(
        self, client: Candidates, graph: CandidateGraph, requests: Sequence[Request]
    ) -> None:
        async with self._turn:
            delivery = graph.next_update(_speculating(requests), whole=True)
            try:
                unknown = await client.observe(delivery.update, OBSERVE_TIMEOUT_S)
            except asyncio.CancelledError:
                graph.lost(delivery)
                raise
            except Exception as error:
                self._failed(graph, delivery, error)
            else:
                # This does not close the breaker: a worker may observe well, yet propose too late.
                graph.delivered(delivery, unknown)

    def _is_observing(self) -> bool:
        return self._observing is not None and not self._observing.done()

    def _close_breaker(self) -> None:
        if self._breaker.is_open:
            log.info("candidates answer again")
            self.connect()
        self._breaker.succeeded()

    def _failed(self, graph: CandidateGraph, delivery: Delivery, error: Exception) -> None:
        self.num_failures += 1
        graph.lost(delivery)
        if graph is not self.graph:
            return
        if not isinstance(error, DSparkError):
            log.error("a candidates reply could not be read", exc_info=error)
        if self._breaker.failed():
            log.warning("decoding plainly, candidates fail: %s", error)

    async def _connect(self, client: Candidates) -> None:
        backoff_s, max_backoff_s = INFO_BACKOFF_S
        while True:
            try:
                self.info = await client.info()
                return
            except DSparkError as error:
                if self._limiter.is_due(error.message):
                    log.warning("no candidates to use: %s", error)
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, max_backoff_s)


def _speculating(requests: Sequence[Request]) -> list[Request]:
    """Those of which candidates may know."""
    return [request for request in requests if request.spec.speculation.enabled]


async def _take_leave(client: Candidates, update: CandidatesUpdate) -> None:
    """One that does not answer forgets its sequences by their leases."""
    with contextlib.suppress(Exception):
        await client.observe(update, OBSERVE_TIMEOUT_S)
