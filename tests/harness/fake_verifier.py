"""VerifierService over a hash model, on a real socket, with scripted faults."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from grpc import aio
from numpy.typing import NDArray

from dspark.errors import Draining, InternalError, InvalidArgument, NotReady, StaleStep
from dspark.features import Features
from dspark.sampling import SamplingParams
from dspark.step import (
    SequenceAdmission,
    SequenceWork,
    StepOutcome,
    StepPlan,
    VerifierInfo,
    VerifyCost,
    WorkResult,
    WorkStatus,
)
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.wire.step import outcome_to_proto, plan_from_proto, verifier_info_to_proto
from harness.hash_model import HashModel
from harness.socket_server import FakeService

HIDDEN_SIZE = 3
LINEAR_COSTS = ((1, 10.0), (64, 10.5), (512, 80.0))


class StepFault(Enum):
    """What goes wrong with one Step call; the next call meets the next fault."""

    NONE = "none"
    REFUSE = "unavailable before the step runs"
    DROP_REPLY = "the step runs, its reply is lost"
    RESTART = "all state is lost, then the call fails"
    FORGET = "all sequences are lost, the call succeeds"
    BUG = "an internal error"
    DRAIN = "the verifier says that it shuts down"


@dataclass
class _Sequence:
    epoch: int
    token_ids: list[int]
    num_prompt_tokens: int
    sampling: SamplingParams
    salt: str
    cached: bool
    num_computed: int = 0


@dataclass
class FakeVerifier(FakeService):
    """Start it, point a scheduler at ``target``, read ``plans``.

    ``forward_s`` gives the time of a pass by rows. A pass waits for ``hold``, if set. Passes of
    several step loops take turns, and ``num_queued`` counts those that had to wait.
    """

    name: ClassVar[str] = "dspark.v1.VerifierService"
    model: HashModel = field(default_factory=HashModel)
    block_size: int = 4
    num_blocks: int = 256
    max_step_rows: int = 512
    costs: tuple[tuple[int, float], ...] = LINEAR_COSTS
    forward_s: Callable[[int], float] = lambda rows: 0.0
    digest: str = "hash"
    computes_ahead: bool = False
    feature_layers: tuple[int, ...] = (0, 1, 2)
    faults: deque[StepFault] = field(default_factory=deque)
    hold: asyncio.Event | None = None
    is_ready: bool = True
    is_ending: bool = False
    instance_id: str = "first"
    plans: list[StepPlan] = field(default_factory=list)
    max_used_blocks: int = 0
    num_queued: int = 0
    num_starved: int = 0

    def __post_init__(self) -> None:
        self.sequences: dict[str, _Sequence] = {}
        self._cache: set[tuple[str, tuple[int, ...]]] = set()
        self._steps: dict[str, tuple[int, asyncio.Task[StepOutcome]]] = {}
        self._turn = asyncio.Lock()

    def add_to(self, server: aio.Server) -> None:
        pb_grpc.add_VerifierServiceServicer_to_server(_Servicer(self), server)

    @property
    def info(self) -> VerifierInfo:
        return VerifierInfo(
            model_id="hash",
            model_digest=self.digest,
            vocab_size=self.model.vocab_size,
            max_model_len=self.model.max_model_len,
            eos_token_ids=frozenset({self.model.eos_token_id}),
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            max_step_rows=self.max_step_rows,
            exactness="strict",
            kernel_class="hash",
            dtype="int",
            device="cpu",
            verify_costs=tuple(VerifyCost(*cost) for cost in self.costs),
            computes_ahead=self.computes_ahead,
            feature_layers=self.feature_layers,
            hidden_size=HIDDEN_SIZE,
            instance_id=self.instance_id,
            is_ending=self.is_ending,
        )

    @property
    def num_free_blocks(self) -> int:
        return self.num_blocks - sum(self._blocks(s.num_computed) for s in self.sequences.values())

    def restart(self) -> None:
        """Lose everything, as a new process would."""
        self.sequences.clear()
        self._cache.clear()
        self._steps.clear()

    async def step(self, plan: StepPlan) -> StepOutcome:
        """Once for each step id; a repeat waits for the first run."""
        fault = self.faults.popleft() if self.faults else StepFault.NONE
        if fault is StepFault.BUG:
            raise InternalError("scripted bug")
        if fault is StepFault.DRAIN:
            raise Draining("scripted shutdown")
        if fault is StepFault.FORGET:
            self.sequences.clear()
        if fault is StepFault.RESTART:
            self.restart()
        if fault in (StepFault.REFUSE, StepFault.RESTART):
            raise NotReady("scripted fault")
        outcome = await self._once(plan)
        if fault is StepFault.DROP_REPLY:
            raise NotReady("scripted loss of the reply")
        return outcome

    async def _once(self, plan: StepPlan) -> StepOutcome:
        last = self._steps.get(plan.scheduler_id)
        if last is not None and plan.step_id < last[0]:
            raise StaleStep(plan.step_id, last[0])
        if last is None or plan.step_id > last[0]:
            last = (plan.step_id, asyncio.ensure_future(self._run(plan)))
            self._steps[plan.scheduler_id] = last
        return await asyncio.shield(last[1])

    async def _run(self, plan: StepPlan) -> StepOutcome:
        self.num_queued += self._turn.locked()
        async with self._turn:
            return await self._compute(plan)

    async def _compute(self, plan: StepPlan) -> StepOutcome:
        self.plans.append(plan)
        cached = self._apply_membership(plan)
        num_rows = sum(min(w.max_pending_rows, 512) + len(w.tree) for w in plan.work)
        seconds = self.forward_s(num_rows)
        if seconds:
            await asyncio.sleep(seconds)
        if self.hold is not None:
            await self.hold.wait()
        results = tuple(self._results(plan))
        self.num_starved += sum(result.status is WorkStatus.NO_BLOCKS for result in results)
        self.max_used_blocks = max(self.max_used_blocks, self.num_blocks - self.num_free_blocks)
        return StepOutcome(
            plan.step_id,
            cached,
            results,
            forward_ns=int(seconds * 1e9),
            num_rows=num_rows,
            num_free_blocks=self.num_free_blocks,
            is_ending=self.is_ending,
        )

    def _apply_membership(self, plan: StepPlan) -> dict[str, int]:
        for ref in plan.releases:
            known = self.sequences.get(ref.request_id)
            if known is not None and known.epoch <= ref.epoch:
                del self.sequences[ref.request_id]
        return {a.request_id: self._admit(a) for a in plan.admissions}

    def _admit(self, admission: SequenceAdmission) -> int:
        num_generated = len(admission.token_ids) - admission.num_prompt_tokens
        if not 0 <= num_generated < admission.sampling.max_tokens:
            raise InvalidArgument("admissions", "nothing is left to generate")
        known = self.sequences.get(admission.request_id)
        if known is not None and known.epoch >= admission.epoch:
            return 0
        sequence = _Sequence(
            admission.epoch,
            list(admission.token_ids),
            admission.num_prompt_tokens,
            admission.sampling,
            admission.cache_salt,
            admission.use_prefix_cache,
        )
        self.sequences[admission.request_id] = sequence
        sequence.num_computed = self._cached_tokens(sequence)
        return sequence.num_computed

    def _cached_tokens(self, sequence: _Sequence) -> int:
        length = 0
        while sequence.cached and length + self.block_size < len(sequence.token_ids):
            prefix = tuple(sequence.token_ids[: length + self.block_size])
            if (sequence.salt, prefix) not in self._cache:
                break
            length += self.block_size
        return length

    def _results(self, plan: StepPlan) -> Iterator[WorkResult]:
        for work in plan.work:
            sequence = self.sequences.get(work.request_id)
            start = 0 if sequence is None else sequence.num_computed
            result = self._work(work, plan.top_k)
            first = max(start, result.num_computed_tokens - work.num_features)
            if sequence is not None and work.num_features and result.status is WorkStatus.DONE:
                computed = sequence.token_ids[: result.num_computed_tokens]
                features = hash_features(computed, first, plan.feature_layers)
                result = replace(result, features=features)
            yield result

    def _work(self, work: SequenceWork, top_k: int) -> WorkResult:
        sequence = self.sequences.get(work.request_id)
        if sequence is None:
            return WorkResult(work.request_id, work.epoch, WorkStatus.NOT_FOUND)
        if (sequence.epoch, len(sequence.token_ids)) != (work.epoch, work.base_len):
            return WorkResult(
                work.request_id, work.epoch, WorkStatus.STALE, known_epoch=sequence.epoch
            )
        pending = len(sequence.token_ids) - sequence.num_computed
        rows = min(pending, work.max_pending_rows)
        if sequence.num_computed + rows > self._room(sequence):
            return WorkResult(work.request_id, work.epoch, WorkStatus.NO_BLOCKS)
        sequence.num_computed += rows
        if rows < pending:
            return WorkResult(work.request_id, work.epoch, WorkStatus.DONE, sequence.num_computed)
        return self._walk(work, sequence, top_k)

    def _room(self, sequence: _Sequence) -> int:
        """Tokens whose KV the sequence could have at most."""
        own = self._blocks(sequence.num_computed)
        return (self.num_free_blocks + own) * self.block_size

    def _walk(self, work: SequenceWork, sequence: _Sequence, top_k: int) -> WorkResult:
        work.tree.validate(self.model.vocab_size)
        # Candidates take only what is left: the accepted ones must find room.
        max_accepted = self._room(sequence) - work.base_len
        anchor = sequence.token_ids[-1]
        committed: list[int] = []
        accepted: list[int] = []
        entry: int | None = 0
        reason = stop = None
        while entry is not None and reason is None:
            token_id = self.model.next_token(sequence.token_ids, sequence.sampling)
            committed.append(token_id)
            sequence.token_ids.append(token_id)
            num_generated = len(sequence.token_ids) - sequence.num_prompt_tokens
            reason, stop = self.model.end_of(
                token_id, num_generated, len(sequence.token_ids), sequence.sampling
            )
            # The token that ends a sequence is the bonus token, also where a node carries it.
            ended = reason is not None or len(accepted) >= max_accepted
            entry = None if ended else work.tree.children[entry].get(token_id)
            if entry is not None:
                accepted.append(entry)
        sequence.num_computed = work.base_len + len(accepted)
        self._remember(sequence)
        if reason is not None:
            del self.sequences[work.request_id]
        row_ids = (anchor, *work.tree.token_ids) if top_k else ()
        tops = tuple((row + k) % self.model.vocab_size for row in row_ids for k in range(top_k))
        return WorkResult(
            work.request_id,
            work.epoch,
            WorkStatus.DONE,
            sequence.num_computed,
            tuple(committed),
            tuple(accepted),
            reason,
            stop,
            row_ids,
            tops,
        )

    def _remember(self, sequence: _Sequence) -> None:
        if sequence.cached:
            for end in range(self.block_size, sequence.num_computed + 1, self.block_size):
                self._cache.add((sequence.salt, tuple(sequence.token_ids[:end])))

    def _blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)


def hash_feature(token_ids: Sequence[int], layer: int) -> NDArray[np.float32]:
    """[HIDDEN_SIZE] of the last token; bfloat16 holds it exactly."""
    digest = hash(tuple(token_ids)) % 64 + 64 * layer
    return np.full(HIDDEN_SIZE, digest, dtype=np.float32)


def hash_features(token_ids: Sequence[int], first: int, layers: Sequence[int]) -> Features:
    """Those of the tokens from ``first`` on."""
    values = np.array(
        [
            [hash_feature(token_ids[: position + 1], layer) for layer in layers]
            for position in range(first, len(token_ids))
        ],
        dtype=np.float32,
    )
    data = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    return Features(first, (len(token_ids) - first, len(layers), HIDDEN_SIZE), data)


class _Servicer(pb_grpc.VerifierServiceServicer):
    def __init__(self, fake: FakeVerifier) -> None:
        self._fake = fake

    async def GetVerifierInfo(
        self, request: pb.GetVerifierInfoRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.GetVerifierInfoResponse:
        if not self._fake.is_ready:
            raise NotReady("loading")
        return verifier_info_to_proto(self._fake.info)

    async def Step(
        self, request: pb.StepRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.StepResponse:
        return outcome_to_proto(await self._fake.step(plan_from_proto(request)))

    async def StreamStep(
        self,
        requests: AsyncIterator[pb.StreamStepRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[pb.StreamStepResponse]:
        async for request in requests:
            yield pb.StreamStepResponse(step=await self.Step(request.step, context))
