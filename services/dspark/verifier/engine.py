"""The verifier's step: schedule rows, run the model once, walk, commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from dspark.kv_blocks import BlockType
from dspark.step import StepOutcome, StepPlan, WorkResult
from dspark.verifier.admission import Limits, check_plan
from dspark.verifier.ahead import expected_work
from dspark.verifier.committer import Committer
from dspark.verifier.engine_settings import EngineSettings
from dspark.verifier.forward_passes import Computed, ForwardPasses
from dspark.verifier.interfaces import KvStore, ModelRunner
from dspark.verifier.kv.block_exchange import BlockExchange
from dspark.verifier.kv.block_pool import BlockPool
from dspark.verifier.kv.prefix_cache import PrefixCache
from dspark.verifier.pruning.pruner import NoPruning, Pruner
from dspark.verifier.sampling.logprobs import LOGPROBS_MODES
from dspark.verifier.scheduled_work import ScheduledWork
from dspark.verifier.sequence import Sequence
from dspark.verifier.sequence_table import SequenceTable
from dspark.verifier.step_planner import StepPlanner
from dspark.verifier.structure.compiler import NoStructures, Structures
from dspark.verifier.successor_rows import SuccessorRanking

log = logging.getLogger(__name__)

# Longest wait of a step that has nothing to compute until a grammar is compiled.
GRAMMAR_WAIT_S = 0.005


class Engine:
    """Sequences, their KV blocks and the model, advanced one step at a time. Not thread-safe."""

    def __init__(
        self,
        runner: ModelRunner,
        kv: KvStore,
        settings: EngineSettings,
        clock: Callable[[], float] = time.monotonic,
        pruner: Pruner | None = None,
        structures: Structures | None = None,
    ) -> None:
        self.block_size = block_size = settings.block_size
        self.structures: Structures = structures or NoStructures()
        self.limits = _limits(runner, settings, self.structures)
        self.pool = BlockPool(settings.num_blocks, settings.num_evictable_blocks)
        self.prefix_cache = PrefixCache(
            self.pool,
            block_size,
            model_digest=settings.model_digest,
            kernel_class=settings.kernel_class,
        )
        self.sequences = SequenceTable(
            self.pool,
            self.prefix_cache,
            self.limits,
            block_size=block_size,
            lease_s=settings.lease_s,
            tombstone_s=settings.tombstone_s,
            clock=clock,
            structures=self.structures,
        )
        self.planner = _planner(self, runner, settings)
        self.pruner: Pruner = pruner or NoPruning()
        self.passes = ForwardPasses(runner, self.pruner, is_row_invariant=settings.is_row_invariant)
        # Sequences with which the next step is expected to go on.
        self._expected: tuple[Sequence, ...] = ()
        self._successors = SuccessorRanking()
        self._committer = Committer(
            self.sequences,
            self.pool,
            self.prefix_cache,
            kv,
            block_size=block_size,
            logprobs_mode=LOGPROBS_MODES[settings.logprobs_mode],
        )
        block_type = BlockType(settings.model_digest, settings.kernel_class, kv.layout)
        self.exchange = BlockExchange(self.sequences, self.pool, self.prefix_cache, kv, block_type)

    def step(self, plan: StepPlan, arrived_ns: int = 0) -> StepOutcome:
        """Run one step; raises InvalidArgument before anything is changed.

        ``arrived_ns`` is when it was asked for, by time.perf_counter_ns. A failed forward pass
        changes no sequence, so the step may be repeated. Any later failure is a bug; the sequences
        it touched are dropped, so that their requests start over.
        """
        check_plan(plan, self.limits)
        self._expected = ()
        self._successors.drop()
        cached_tokens = self._apply_membership(plan)
        entries = self.planner.schedule(plan.work)
        scheduled = [entry for entry in entries if isinstance(entry, ScheduledWork)]
        if entries and not scheduled:
            self.structures.wait(GRAMMAR_WAIT_S)
        num_rows = sum(entry.num_rows for entry in scheduled)
        computed = self.passes.compute(scheduled, arrived_ns, plan.feature_layers)
        if plan.top_k:
            self._successors.remember(scheduled, computed.logits, plan.top_k)
        done = self._commit(scheduled, computed)
        if plan.compute_ahead:
            # What wants features now is going to want them again.
            plain = (entry for entry in scheduled if not entry.work.num_features)
            self._expected = tuple(entry.sequence for entry in plain)
        self.sequences.touch(work.request_id for work in plan.work)
        following = iter(done)
        return StepOutcome(
            step_id=plan.step_id,
            cached_tokens=cached_tokens,
            results=tuple(e if isinstance(e, WorkResult) else next(following) for e in entries),
            forward_ns=computed.forward_ns,
            num_rows=num_rows,
            num_free_blocks=self.pool.num_available,
            ahead_ns=computed.ahead_ns,
            num_ahead_rows=computed.num_ahead_rows,
            num_pruned_rows=computed.num_pruned_rows,
        )

    def rank_successors(self) -> None:
        """Rank what followed the last step's rows, for the next results to tell.

        To be called before anything else is computed; where it is not, they tell nothing.
        """
        self._successors.rank()

    def compute_ahead(self) -> None:
        """Compute the pass of the plain step that is expected next, if one is.

        It writes only K/V that the step itself would write, and takes only blocks that it would
        take. A failure leaves the step to compute all by itself.
        """
        self._successors.drop()
        expected, self._expected = self._expected, ()
        # What has ended since is not found, and left out.
        entries = self.planner.schedule(expected_work(expected))
        scheduled = [entry for entry in entries if isinstance(entry, ScheduledWork)]
        if scheduled:
            self.passes.compute_ahead(scheduled)

    def _apply_membership(self, plan: StepPlan) -> dict[str, int]:
        """Leases, releases and admissions; returns the admissions' cached tokens."""
        self.sequences.touch(work.request_id for work in plan.work)
        self.reclaim()
        for ref in plan.releases:
            self.sequences.release(ref)
        return {a.request_id: self.sequences.admit(a) for a in plan.admissions}

    def _commit(self, scheduled: list[ScheduledWork], computed: Computed) -> list[WorkResult]:
        try:
            results = self._committer.commit(scheduled, computed.logits, computed.features)
            self.pruner.learn(scheduled, results)
            return results
        except Exception:
            for entry in scheduled:
                if self.sequences.get(entry.sequence.request_id) is entry.sequence:
                    self.sequences.drop(entry.sequence)
            raise

    def reclaim(self) -> None:
        """Drop sequences that no step has named for the length of a lease."""
        for request_id in self.sequences.reclaim():
            log.warning("reclaimed %s: no step named it for a whole lease", request_id)

    def check(self) -> None:
        """Assert the block accounting."""
        self.sequences.check()


def _planner(engine: Engine, runner: ModelRunner, settings: EngineSettings) -> StepPlanner:
    return StepPlanner(
        engine.sequences,
        engine.pool,
        vocab_size=runner.vocab_size,
        block_size=settings.block_size,
        max_tree_nodes=settings.max_tree_nodes,
        max_prompt_logits=settings.max_prompt_logits,
        books=engine.structures.books,
    )


def _limits(runner: ModelRunner, settings: EngineSettings, structures: Structures) -> Limits:
    max_model_len = runner.max_model_len
    if settings.max_model_len:
        max_model_len = min(max_model_len, settings.max_model_len)
    return Limits(
        vocab_size=runner.vocab_size,
        max_model_len=max_model_len,
        max_pool_tokens=settings.num_blocks * settings.block_size,
        eos_token_ids=runner.eos_token_ids,
        feature_layers=runner.feature_layers,
        can_structure=structures.is_available,
    )
