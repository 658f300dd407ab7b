"""From what a verifier says of itself to the loops that step it, one for each of its waves."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from dspark.scheduler.batcher import Batcher
from dspark.scheduler.books import Books
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.draft_knowledge import DraftKnowledge, DraftLimits
from dspark.scheduler.drafting import Drafting
from dspark.scheduler.fairness.prompt_budget import PromptBudget
from dspark.scheduler.feature_wishes import FeatureWishes
from dspark.scheduler.limits import Limits
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.online_costs import OnlineCosts
from dspark.scheduler.policy import make_policy
from dspark.scheduler.policy.interface import PolicySettings
from dspark.scheduler.progress import Progress
from dspark.scheduler.results import ResultApplier
from dspark.scheduler.step_books import StepBooks
from dspark.scheduler.step_lessons import StepLessons
from dspark.scheduler.step_loop import StepLoop
from dspark.scheduler.step_plans import StepPlans
from dspark.scheduler.step_runner import StepRunner
from dspark.scheduler.verifier_link import VerifierLink
from dspark.scheduler.wave_choice import WAVES
from dspark.scheduler.waves import Wave, Waves
from dspark.step import VerifierInfo


@dataclass(frozen=True, slots=True)
class LoopMaker:
    """Makes the loops of one worker, whose parts these are; ``steps`` counts its steps."""

    config: SchedulerConfig
    live: LiveRequests
    verifier: VerifierLink
    candidates: CandidatesLink | None
    books: Books
    progress: Progress
    steps: StepBooks

    def loops(
        self, info: VerifierInfo, knowledge: DraftKnowledge, batcher: Batcher, waves: Waves
    ) -> tuple[StepLoop, ...]:
        """A loop for each wave that there may be."""
        return tuple(self._loop(info, Drafting(knowledge), batcher, w) for w in waves.members)

    def _loop(
        self, info: VerifierInfo, drafting: Drafting, batcher: Batcher, wave: Wave
    ) -> StepLoop:
        lessons = drafting.lessons
        # Step ids count within it, from the start of each loop.
        scheduler_id = f"scheduler-{uuid.uuid4().hex[:12]}"
        runner = StepRunner(
            self.live,
            batcher,
            drafting,
            StepPlans(scheduler_id, self.live, drafting, self.verifier, wave),
            self.verifier,
            ResultApplier(
                self.live,
                self.books.totals,
                lessons.learn,
                info.arithmetic_name,
                lessons.keep_features,
            ),
            StepLessons(self.live, drafting, wave.waves, self.books.timings, self.steps),
            self.progress,
            wave,
        )
        return StepLoop(runner, self.live, self.progress, self.steps, wave)

    def waves(self, info: VerifierInfo) -> Waves:
        return Waves(self.live, info.num_blocks, WAVES[self.config.waves](info))

    def batcher(self, info: VerifierInfo) -> Batcher:
        """With the limit of rows that the verifier has by itself."""
        config = self.config
        max_rows = min(config.max_num_batched_tokens, info.max_step_rows)
        return Batcher(
            config.max_num_seqs,
            max_rows,
            info.block_size,
            info.num_blocks,
            PromptBudget.measured(info.verify_costs, config.max_prompt_ms, max_rows),
            config,
        )

    def knowledge(self, info: VerifierInfo) -> DraftKnowledge:
        """What is known at the start."""
        config = self.config
        settings = PolicySettings(
            config.num_draft_tokens, config.min_survival, config.min_gain, config.explore_share
        )
        limits = DraftLimits(
            info.vocab_size,
            Limits.of(info, None).max_len,
            config.max_draft_tokens,
            config.mute_after,
            config.mute_steps,
        )
        return DraftKnowledge(
            make_policy(config.policy, settings),
            self.candidates,
            limits,
            OnlineCosts.measured(info.verify_costs),
            self.books.totals.drafting,
            features=FeatureWishes(info.feature_layers, info.hidden_size),
            calibration=self.books.calibrations.of(info.model_digest),
            log=self.books.decisions,
            computes_ahead=info.computes_ahead,
        )
