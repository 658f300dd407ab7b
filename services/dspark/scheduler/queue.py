"""The waiting queue: by priority with ageing, then class, then turns between tenants."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from dspark.clock import monotonic
from dspark.errors import QueueFull
from dspark.request_class import RequestClass
from dspark.scheduler.fairness.charges import Charges
from dspark.scheduler.fairness.class_turns import ClassTurns
from dspark.scheduler.fairness.lane import Lane, LaneKey
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.slot_shares import AnySlot, SlotRules
from dspark.scheduler.fairness.waiting_work import Ahead, WaitingWork, Work
from dspark.scheduler.output_lengths import OutputLengths
from dspark.scheduler.request import Request, Share


class _Waiting(NamedTuple):
    lane: LaneKey
    work: Work


class WaitingQueue:
    """Requests not on a verifier. The bound holds for new requests; a preempted one always returns.

    A request keeps its time of arrival for life, so a preempted one is again before all that came
    later to its lane. A waiting request is overtaken by a better priority only until its own has
    aged to that level. From then on the turns decide: an account that others pass and a share of
    batch both come round, so none waits for ever.
    """

    def __init__(
        self,
        max_waiting: int,
        settings: FairnessSettings | None = None,
        outputs: OutputLengths | None = None,
    ) -> None:
        self._outputs = outputs or OutputLengths()
        self._settings = settings or FairnessSettings()
        self._max_waiting = max_waiting
        self._lanes: dict[LaneKey, Lane] = {}
        self._waiting: dict[Request, _Waiting] = {}
        self._work = WaitingWork(self._settings.batch_share)
        self._charges = Charges()
        self._turns = ClassTurns(self._settings.batch_share)

    def __len__(self) -> int:
        return len(self._waiting)

    def push_new(self, request: Request) -> None:
        """Raises QueueFull."""
        if len(self) >= self._max_waiting:
            raise QueueFull(f"{len(self)} requests are waiting already")
        self.push(request)

    def push(self, request: Request) -> None:
        assert request not in self._waiting
        key, work = self.key_of(request), self.work_of(request)
        self._charges.hold(request, self._shares(key.request_class))
        self._lanes.setdefault(key, Lane(self._settings.ageing_s)).push(request)
        self._work.add(request.share, work)
        self._waiting[request] = _Waiting(key, work)

    def peek(self, slots: SlotRules | None = None) -> Request | None:
        """The next request, which stays in the queue; None if ``slots`` lets none in."""
        slots = slots or AnySlot()
        lanes = {key: lane for key, lane in self._lanes.items() if slots.may_enter(key)}
        if not lanes:
            return None
        objections = {key: slots.objections(key) for key in lanes}
        fewest = min(objections.values())
        best = {key: lane for key, lane in lanes.items() if objections[key] == fewest}
        return self._first(best, monotonic())

    def take(self, request: Request) -> None:
        """The request is admitted: it leaves the queue, and its tenant is charged for it."""
        classes = {key.request_class for key in self._lanes}
        shares, work = self._shares(request.spec.request_class), self.work_of(request)
        self._leave(request)
        if self._charges.charge(request, shares):
            self._turns.took(request.spec.request_class, work.total, classes)

    def remove(self, request: Request) -> None:
        """The request has ended, or goes on elsewhere; harmless if it does not wait."""
        self._leave(request)
        self._charges.settle(request)

    def to_displace(self, share: Share) -> Request | None:
        """Who has to leave a full queue for a request of ``share``, so that no tenant fills it.

        It is the last of the longest queue of a tenant and class, if that is longer than this one;
        never one that has tokens already.
        """
        longest = self._work.longest_besides(share)
        new = [r for r in self._waiting if r.share == longest and not r.num_generated_tokens]
        return max(new, key=lambda request: request.arrival, default=None)

    def correct(self, request: Request) -> None:
        """An admitted request has got further, or is known to have been cached in part."""
        self._charges.correct(request)

    def round_of(self, share: Share) -> int:
        """The lower, the sooner it is the turn of a tenant that waits or runs."""
        return self._charges.round_of(share)

    def members(self) -> list[Request]:
        return list(self._waiting)

    @property
    def shares(self) -> set[Share]:
        """Whose requests wait."""
        return {Share(key.request_class, key.tenant) for key in self._lanes}

    def key_of(self, request: Request) -> LaneKey:
        """Which requests it counts as one of; while it waits, this does not change."""
        if request in self._waiting:
            return self._waiting[request].lane
        is_long = self._outputs.expected(request) >= self._settings.long_output_tokens
        is_long |= request.num_prompt_tokens >= self._settings.long_prompt_tokens
        return LaneKey(request.spec.request_class, request.spec.tenant, is_long)

    def work_of(self, request: Request) -> Work:
        num_output = self._outputs.expected(request) - request.num_generated_tokens
        return Work(request.num_pending_tokens, num_output)

    def ahead_of(self, request: Request) -> Ahead:
        """What goes before a request that would come now."""
        return self._work.ahead(request.share, self.work_of(request))

    def _leave(self, request: Request) -> None:
        waiting = self._waiting.pop(request, None)
        if waiting is None:
            return
        self._work.remove(request.share, waiting.work)
        lane = self._lanes[waiting.lane]
        lane.discard(request)
        if not lane:
            del self._lanes[waiting.lane]

    def _first(self, lanes: dict[LaneKey, Lane], now: float) -> Request:
        best_level = min(lane.best_level for lane in lanes.values())
        due_by = now + best_level * self._settings.ageing_s
        due = {k: lane for k, lane in lanes.items() if lane.due(lane.head) <= due_by}
        request_class = self._turns.first({key.request_class for key in due})
        heads = [
            (self._charges.round_of(lane.head.share), lane.due(lane.head), lane.head)
            for key, lane in due.items()
            if key.request_class is request_class
        ]
        return min(heads, key=lambda head: (*head[:2], head[2].arrival))[2]

    def _shares(self, request_class: RequestClass) -> Collection[Share]:
        """Whose requests of a class wait."""
        return [share for share in self.shares if share.request_class is request_class]
