"""One request: its data, its counters, and the states it passes through.

waiting --admit--> running --preempt--> preempted --admit--> running
any of them --finish--> finished
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from dspark.clock import monotonic
from dspark.generation import RequestSpec
from dspark.request_class import RequestClass
from dspark.sampling import FinishReason, RequestTimes, SpeculationStats, Usage
from dspark.scheduler.request_trace import RequestTrace
from dspark.scheduler.step_timing import StepTiming
from dspark.scheduler.token_stream import TokenStream
from dspark.step import SequenceRef

MAX_TIMINGS = 512


class RequestStatus(Enum):
    """Where a request is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class Share(NamedTuple):
    """Whose share of a verifier a request takes."""

    request_class: RequestClass
    tenant: str


@dataclass(eq=False, slots=True)
class Request:
    """A live request. Counters are the state: what is known, what the verifier has computed."""

    spec: RequestSpec
    arrival: int
    stream: TokenStream = field(default_factory=TokenStream)
    token_ids: list[int] = field(default_factory=list)
    status: RequestStatus = RequestStatus.WAITING
    epoch: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int | None = None
    # Of its first tokens, those that its verifier probably has cached.
    num_likely_cached: int = 0
    # Which wave of its verifier computes it, while it runs.
    wave: int = 0
    # Times that it went on at another verifier while it ran.
    num_moves: int = 0
    # Times the verifier lost the sequence or had no room for it alone, since the last commit.
    num_setbacks: int = 0
    # Steps since it last took part in one, while it runs.
    num_sat_out: int = 0
    # Whether it was preempted for a request that could not wait.
    has_given_way: bool = False
    stats: SpeculationStats = field(default_factory=SpeculationStats)
    timings: deque[StepTiming] = field(default_factory=lambda: deque(maxlen=MAX_TIMINGS))
    # by dspark.clock; the latter two of the first time that it happened
    arrived_at: float = field(default_factory=monotonic)
    admitted_at: float | None = None
    decoding_since: float | None = None
    # None where the request is not sampled
    trace: RequestTrace | None = None

    def __post_init__(self) -> None:
        self.token_ids = [*self.spec.prompt_token_ids, *self.spec.committed_token_ids]

    @property
    def request_id(self) -> str:
        return self.spec.request_id

    @property
    def share(self) -> Share:
        return Share(self.spec.request_class, self.spec.tenant)

    @property
    def order(self) -> tuple[int, int, int]:
        """Requests with a smaller order are preempted last."""
        return self.spec.priority, self.spec.request_class.rank, self.arrival

    @property
    def ref(self) -> SequenceRef:
        return SequenceRef(self.request_id, self.epoch)

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.spec.prompt_token_ids)

    @property
    def num_uncached_tokens(self) -> int:
        """Prompt tokens that have to be computed, as far as is known."""
        return self.num_prompt_tokens - (self.num_cached_tokens or 0)

    @property
    def max_len(self) -> int:
        """Largest number of prompt and generated tokens that it may come to have."""
        return self.num_prompt_tokens + self.spec.sampling.max_tokens

    @property
    def num_generated_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_remaining_tokens(self) -> int:
        """Tokens that may still be generated."""
        return self.spec.sampling.max_tokens - self.num_generated_tokens

    @property
    def num_pending_tokens(self) -> int:
        """Known tokens whose KV is not computed; a decoding request has one, its anchor."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def is_running(self) -> bool:
        return self.status is RequestStatus.RUNNING

    @property
    def is_finished(self) -> bool:
        return self.status is RequestStatus.FINISHED

    def is_at(self, epoch: int, num_tokens: int) -> bool:
        """Whether it runs in this incarnation at this length, so what was meant for both fits."""
        return self.is_running and (self.epoch, len(self.token_ids)) == (epoch, num_tokens)

    def admit(self, epoch: int) -> None:
        """Start an incarnation on the verifier."""
        assert self.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED), self.status
        assert epoch > self.epoch
        self.status = RequestStatus.RUNNING
        if self.admitted_at is None:
            self.admitted_at = monotonic()
        self.epoch = epoch
        self.num_computed_tokens = 0

    def preempt(self) -> None:
        """Lose the verifier's state; the committed tokens stay."""
        assert self.is_running, self.status
        self.status = RequestStatus.PREEMPTED
        self.num_computed_tokens = 0
        if self.trace is not None:
            self.trace.preempted()

    def commit(self, token_ids: tuple[int, ...]) -> None:
        assert self.is_running, self.status
        self.token_ids.extend(token_ids)
        self.num_setbacks = 0
        if self.decoding_since is None:
            self.decoding_since = monotonic()

    def finish(self) -> None:
        assert not self.is_finished
        self.status = RequestStatus.FINISHED

    def usage(self) -> Usage:
        return Usage(self.num_prompt_tokens, self.num_generated_tokens, self.num_cached_tokens or 0)

    def times(self) -> RequestTimes:
        """How long each part of its life took up to now."""
        now = monotonic()
        admitted = self.admitted_at or now
        decoding = self.decoding_since or now
        return RequestTimes(
            queue_ms=(admitted - self.arrived_at) * 1e3,
            prefill_ms=(decoding - admitted) * 1e3,
            decode_ms=(now - decoding) * 1e3,
        )


def is_natural(reason: FinishReason) -> bool:
    """Whether the request ended by itself, so that its text is worth learning from."""
    return reason in (FinishReason.STOP, FinishReason.LENGTH)
