"""All live requests and the moves between waiting, running and finished."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from dspark.clock import monotonic
from dspark.errors import DSparkError, DuplicateRequest, QueueFull, UnknownRequest
from dspark.generation import RequestSpec, TokensComplete
from dspark.sampling import FinishReason
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.token_rates import TokenRates
from dspark.scheduler.fairness.wait_forecast import WaitForecast
from dspark.scheduler.output_lengths import OutputLengths
from dspark.scheduler.queue import WaitingQueue
from dspark.scheduler.request import Request, RequestStatus, Share, is_natural
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_timing import breakdown
from dspark.step import SequenceRef

EndListener = Callable[[Request, bool], None]


class Numbers:
    """Arrivals and epochs: one count of each for all verifiers, so that a request may move.

    A verifier goes by the largest epoch of a request, which another scheduler may have drawn. So
    epochs never fall behind ``least_epoch()``, which is alike in all schedulers, such as the time,
    nor behind one that a verifier knows.
    """

    def __init__(self, least_epoch: Callable[[], int]) -> None:
        self._arrivals = itertools.count()
        self._least_epoch = least_epoch
        self._epoch = 0

    def next_arrival(self) -> int:
        return next(self._arrivals)

    def next_epoch(self) -> int:
        self._epoch = max(self._epoch + 1, self._least_epoch())
        return self._epoch

    def pass_epoch(self, epoch: int) -> None:
        """Draw larger ones from now on."""
        self._epoch = max(self._epoch, epoch)


class LiveRequests:
    """Owns every request of one verifier from submit, or take-over, to finish.

    ``releases`` are sequences that the verifier may still hold and must free in the next step.
    Every admission gets an epoch of its own, larger than all before it, so no late result can be
    mistaken.
    """

    def __init__(
        self,
        max_waiting: int,
        numbers: Numbers,
        totals: Totals,
        settings: FairnessSettings | None = None,
        outputs: OutputLengths | None = None,
    ) -> None:
        self._settings = settings or FairnessSettings()
        self._outputs = outputs or OutputLengths()
        self.waiting = WaitingQueue(max_waiting, self._settings, self._outputs)
        self.rates = TokenRates()
        self._forecast = WaitForecast(self._settings, self.rates)
        self.running: list[Request] = []
        self.releases: list[SequenceRef] = []
        self._by_id: dict[str, Request] = {}
        self._numbers = numbers
        self._totals = totals
        self._tell_end: EndListener = lambda request, completed: None
        self._departures: dict[Request, Callable[[Request], None]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Request]:
        return iter(tuple(self._by_id.values()))

    def has(self, request_id: str) -> bool:
        return request_id in self._by_id

    def get(self, request_id: str) -> Request | None:
        return self._by_id.get(request_id)

    def set_end_listener(self, listener: EndListener) -> None:
        """``listener(request, completed)`` is called when a request ends."""
        self._tell_end = listener

    def submit(self, spec: RequestSpec, *, is_full: bool = False) -> Request:
        """Queue a checked request; raises DuplicateRequest, QueueFull or Overloaded.

        Where too many wait already, it can only take the place of another.
        """
        if spec.request_id in self._by_id:
            raise DuplicateRequest(spec.request_id)
        request = Request(spec, self._numbers.next_arrival())
        if request.num_remaining_tokens > 0:
            # A client that has tokens already cannot turn elsewhere.
            if not spec.committed_token_ids:
                self._forecast.check(request, self.waiting.ahead_of(request))
            if is_full:
                self._make_place(request.share)
            self.waiting.push_new(request)
        self._by_id[spec.request_id] = request
        if request.num_remaining_tokens <= 0:
            self.complete(request, FinishReason.LENGTH)
        return request

    def admit(self, request: Request) -> None:
        if request.admitted_at is None:
            self._totals.classes.admitted(request, monotonic())
        self.waiting.take(request)
        request.admit(self._numbers.next_epoch())
        self.running.append(request)

    def requeue(self, request: Request, known_epoch: int = 0) -> None:
        """Free its place on the verifier; it waits for another, before all that came later.

        ``known_epoch`` is one that its next admission must exceed.
        """
        self._numbers.pass_epoch(known_epoch)
        self.running.remove(request)
        self.releases.append(request.ref)
        request.preempt()
        self.waiting.push(request)

    def give_way(self, request: Request) -> None:
        """Requeue a running request for one that must not wait."""
        self._totals.num_preemptions += 1
        request.has_given_way = True
        self.requeue(request)

    def preempt_last(self) -> None:
        """Requeue the running request of the lowest priority that came last."""
        self._totals.num_preemptions += 1
        self.requeue(max(self.running, key=lambda request: request.order))

    def complete(
        self, request: Request, reason: FinishReason, stop_token_id: int | None = None
    ) -> None:
        """End the stream; the verifier has released the sequence by itself, if it had it."""
        self._outputs.observe(request)
        self._drop(request)
        self._totals.count_end(reason)
        self._count_served(request)
        request.stream.push(
            TokensComplete(
                reason,
                stop_token_id,
                request.usage(),
                request.stats,
                breakdown(request.timings),
                request.times(),
            )
        )
        self._tell_end(request, is_natural(reason))

    def stop(self, request_id: str) -> None:
        """Its client found the end in the text; raises UnknownRequest."""
        request = self._by_id.get(request_id)
        if request is None:
            raise UnknownRequest(request_id)
        if request.is_running:
            self.releases.append(request.ref)
        self.complete(request, FinishReason.STOP)

    def fail(self, request: Request, error: DSparkError) -> None:
        """End the stream with an error."""
        self._release_and_drop(request)
        self._totals.count_end(FinishReason.ERROR)
        self._count_served(request, has_failed=True)
        request.stream.fail(error)

    def cancel(self, request: Request) -> bool:
        """The client is gone; False when the request had ended before."""
        if request.is_finished:
            return False
        self._release_and_drop(request)
        self._totals.count_end(FinishReason.ABORT)
        return True

    def fail_all(self, error: DSparkError) -> None:
        for request in list(self._by_id.values()):
            self.fail(request, error)

    def hand_over(self) -> list[Request]:
        """Give up every request, first come first, for other verifiers to go on with.

        This one may hold them still: what it then has to free are ``releases``.
        """
        requests = sorted(self._by_id.values(), key=lambda request: request.order)
        for request in requests:
            self._give_up(request)
        return requests

    def depart(self, request: Request, onward: Callable[[Request], None]) -> None:
        """Give a request up before the next step, to ``onward``, unless it ends before.

        Between steps nothing is under way for it, so no token that is computed for it gets lost.
        """
        if self._by_id.get(request.request_id) is request:
            self._departures[request] = onward

    def is_departing(self, request: Request) -> bool:
        return request in self._departures

    def let_go(self, is_free: Callable[[Request], bool] = lambda request: True) -> None:
        """Those that depart, and that no step is under way for, go on where they are going to."""
        for request, onward in tuple(self._departures.items()):
            if is_free(request):
                self._give_up(request)
                onward(request)

    def _give_up(self, request: Request) -> None:
        if request.is_running:
            self.requeue(request)
        self.waiting.remove(request)
        self._departures.pop(request, None)
        del self._by_id[request.request_id]
        self._tell_end(request, False)

    def take_over(self, request: Request) -> None:
        """Go on with a request that another verifier gave up."""
        self._by_id[request.request_id] = request
        self.waiting.push(request)

    def take_releases(self) -> tuple[SequenceRef, ...]:
        releases, self.releases = tuple(self.releases), []
        return releases

    def _make_place(self, share: Share) -> None:
        """Refuse one that waits, of a tenant that has more; raises QueueFull if none has."""
        request = self.waiting.to_displace(share)
        if request is None:
            raise QueueFull(f"{len(self.waiting)} requests are waiting already")
        refusal = QueueFull("its place in the full queue went to a tenant that has fewer there")
        self._release_and_drop(request)
        self._totals.count_end(FinishReason.ERROR)
        self._totals.classes.refused(request.spec.request_class, refusal)
        request.stream.fail(refusal)

    def _count_served(self, request: Request, *, has_failed: bool = False) -> None:
        targets = self._settings.targets(request.spec.request_class)
        self._totals.classes.ended(request, targets, monotonic(), has_failed=has_failed)

    def _release_and_drop(self, request: Request) -> None:
        if request.is_running:
            self.releases.append(request.ref)
        self._drop(request)
        self._tell_end(request, False)

    def _drop(self, request: Request) -> None:
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
        self.waiting.remove(request)
        request.finish()
        self._departures.pop(request, None)
        del self._by_id[request.request_id]
