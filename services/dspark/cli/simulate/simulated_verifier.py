"""A verifier without a model: it keeps sequences and blocks, and takes the time of its passes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dspark.cli.simulate.ahead_pass import AheadPass
from dspark.cli.simulate.keyed_draws import uniform
from dspark.cli.simulate.kv_pool import KvPool
from dspark.cli.simulate.pass_costs import PassCost, pass_cost
from dspark.cli.simulate.processor import Processor
from dspark.cli.simulate.simulated_sequence import SimulatedSequence
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.clock import monotonic
from dspark.step import (
    SequenceAdmission,
    SequenceWork,
    StepOutcome,
    StepPlan,
    VerifierInfo,
    WorkResult,
    WorkStatus,
)
from dspark.token_tree import TokenTree

_NS = 1e9
_LEAST_JITTER = 0.1


@dataclass(slots=True)
class _Step:
    """What a step computes: (rows, context) of each sequence, and what comes of it."""

    parts: list[tuple[int, int]] = field(default_factory=list)
    plain: dict[str, int] = field(default_factory=dict)
    results: list[WorkResult] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        return sum(rows for rows, _ in self.parts)


class SimulatedVerifier:
    """A client of a verifier that is not there; one step at a time."""

    def __init__(self, model: VerifierModel, processor: Processor, key: int) -> None:
        self._model = model
        self._costs: PassCost = pass_cost(model)
        self._processor = processor
        self._key = key
        self._pool = KvPool(
            model.num_blocks, model.block_size, caches_prefixes=model.caches_prefixes
        )
        self._sequences: dict[str, SimulatedSequence] = {}
        self._ahead: AheadPass | None = None
        self._turn = asyncio.Lock()
        # of steps with work; ``num_requests`` counts a request once for each of them
        self.num_steps = self.num_rows = self.num_requests = 0
        self.busy_s = 0.0

    async def info(self) -> VerifierInfo:
        return self._model.info()

    async def is_ready(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing is open."""

    async def step(self, plan: StepPlan) -> StepOutcome:
        """Take the scheduler's part of the step, then the call's, then the pass's."""
        await self._processor.step(len(plan.work))
        call_s = self._call_s(len(plan.work))
        engine_s = call_s * self._model.engine_share
        await asyncio.sleep(call_s - engine_s)
        arrived = monotonic()
        async with self._turn:
            queue_s = monotonic() - arrived
            await asyncio.sleep(engine_s)
            outcome = await self._compute_all(plan)
        held_ns = outcome.total_ns + round(engine_s * _NS)
        queue_ns = round(queue_s * _NS)
        return replace(outcome, queue_ns=queue_ns, total_ns=queue_ns + held_ns)

    async def _compute_all(self, plan: StepPlan) -> StepOutcome:
        cached = self._admit(plan)
        step = _Step()
        for work in plan.work:
            step.results.append(self._work(work, step))
        outcome = await self._pass(plan, step, cached)
        self._ahead = None
        if plan.compute_ahead and self._model.computes_ahead:
            self._ahead = self._begin_ahead(plan)
        return outcome

    def _call_s(self, num_requests: int) -> float:
        return (self._model.call_ms + self._model.call_ms_per_request * num_requests) / 1e3

    def _admit(self, plan: StepPlan) -> dict[str, int]:
        """Apply releases and admissions; returns the cached tokens of each admission."""
        for release in plan.releases:
            held = self._sequences.get(release.request_id)
            if held is not None and held.admission.epoch <= release.epoch:
                self._drop(release.request_id)
        return {each.request_id: self._begin(each) for each in plan.admissions}

    def _begin(self, admission: SequenceAdmission) -> int:
        self._drop(admission.request_id)
        tokens = admission.token_ids
        cached = 0
        if admission.use_prefix_cache:
            cached = self._pool.cached_tokens(tokens, admission.cache_salt)
        sequence = SimulatedSequence(admission, len(tokens), cached)
        self._sequences[admission.request_id] = sequence
        return cached

    def _drop(self, request_id: str) -> None:
        self._pool.release(request_id)
        self._sequences.pop(request_id, None)

    def _work(self, work: SequenceWork, step: _Step) -> WorkResult:
        sequence = self._sequences.get(work.request_id)
        if sequence is None or sequence.admission.epoch != work.epoch:
            return WorkResult(work.request_id, work.epoch, WorkStatus.NOT_FOUND)
        if sequence.num_tokens != work.base_len:
            return WorkResult(work.request_id, work.epoch, WorkStatus.STALE)
        rows = min(work.max_pending_rows, sequence.num_pending)
        end = sequence.num_computed + rows
        tree = work.tree if end == sequence.num_tokens else TokenTree()
        if not self._pool.hold(work.request_id, end + len(tree)):
            tree = TokenTree()
            if not self._pool.hold(work.request_id, end):
                return WorkResult(work.request_id, work.epoch, WorkStatus.NO_BLOCKS)
        if rows == 1 and not tree:
            step.plain[work.request_id] = len(step.parts)
        step.parts.append((rows + len(tree), end))
        return self._compute(sequence, work, tree)

    def _compute(
        self, sequence: SimulatedSequence, work: SequenceWork, tree: TokenTree
    ) -> WorkResult:
        was_prompt = sequence.num_pending > 1
        result = sequence.compute(work, tree)
        if was_prompt and result.committed_token_ids and sequence.admission.use_prefix_cache:
            self._pool.enter(sequence.admission.token_ids, sequence.admission.cache_salt)
        if result.finish_reason is not None:
            self._drop(work.request_id)
        return result

    async def _pass(self, plan: StepPlan, step: _Step, cached: dict[str, int]) -> StepOutcome:
        arrived = monotonic()
        used = self._ahead.used_by(step.plain) if self._ahead is not None else []
        rest = [part for index, part in enumerate(step.parts) if index not in used]
        forward_ms = self._jittered(self._costs.ms(rest), plan.step_id) if rest else 0.0
        wait_s, ahead_s = forward_ms / 1e3, 0.0
        if self._ahead is not None:
            # The pass that runs is waited for, whether it is of use or not.
            wait_s += max(self._ahead.ends_at - arrived, 0.0)
            if used:
                forward_ms += self._ahead.forward_s * 1e3
                ahead_s = min(arrived - self._ahead.began_at, self._ahead.forward_s)
        await asyncio.sleep(wait_s)
        self.busy_s += wait_s + ahead_s
        self.num_steps += bool(step.parts)
        self.num_rows += step.num_rows
        self.num_requests += len(step.parts)
        return StepOutcome(
            step_id=plan.step_id,
            cached_tokens=cached,
            results=tuple(step.results),
            forward_ns=round(forward_ms / 1e3 * _NS),
            total_ns=round(wait_s * _NS),
            num_rows=step.num_rows,
            num_free_blocks=self._pool.num_free_blocks,
            ahead_ns=round(ahead_s * _NS),
            num_ahead_rows=len(used),
        )

    def _begin_ahead(self, plan: StepPlan) -> AheadPass | None:
        """The rows of a plain step for the sequences that go on."""
        going_on = {
            work.request_id: sequence
            for work in plan.work
            if (sequence := self._sequences.get(work.request_id)) and sequence.num_pending == 1
        }
        if not going_on:
            return None
        parts: Sequence[tuple[int, int]] = [(1, each.num_tokens) for each in going_on.values()]
        forward_ms = self._jittered(self._costs.ms(parts), -plan.step_id & 0xFFFF_FFFF)
        return AheadPass(frozenset(going_on), monotonic(), forward_ms / 1e3)

    def _jittered(self, milliseconds: float, key: int) -> float:
        if not self._model.jitter:
            return milliseconds
        # The sum of twelve uniform draws is nearly normal, with a standard deviation of 1.
        deviation = sum(uniform(self._key, key, n) for n in range(12)) - 6.0
        return milliseconds * max(1.0 + self._model.jitter * deviation, _LEAST_JITTER)
