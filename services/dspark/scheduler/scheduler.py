"""The scheduler: takes requests, keeps a verifier busy with them, and says how it is doing."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from dataclasses import dataclass

from dspark.errors import BackendUnavailable, Draining, DSparkError, NotReady
from dspark.generation import RequestSpec
from dspark.scheduler.batcher import Batcher
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.drafting import Drafting, DraftLimits
from dspark.scheduler.limits import Limits
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.online_costs import OnlineCosts
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import PolicySettings
from dspark.scheduler.progress import Progress
from dspark.scheduler.request import Request
from dspark.scheduler.results import ResultApplier
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_loop import StepLoop
from dspark.scheduler.step_timing import TimingRing
from dspark.scheduler.verifier_link import VerifierLink, VerifierLost
from dspark.step import VerifierInfo

log = logging.getLogger(__name__)

# Epochs start at the time, in sixteenths of a second, so those of a restarted scheduler are larger
# than before.
_EPOCH_ZERO_S = 1_750_000_000
_EPOCHS_PER_S = 16
DRAIN_POLL_S = 0.02
# Time for a last step that frees on the verifier what has been ended here.
RELEASE_S = 1.0


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """What is served; meanings as in the message GetSchedulerInfoResponse."""

    verifier: VerifierInfo
    sources: tuple[str, ...]
    policy: str


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """What goes on now, and the counters since the start."""

    num_running: int
    num_waiting: int
    num_free_blocks: int
    num_blocks: int
    totals: Totals


class Scheduler:
    """Runs requests on one verifier, with candidates from one service or none."""

    def __init__(
        self, config: SchedulerConfig, verifier: VerifierLink, candidates: CandidatesLink | None
    ) -> None:
        self.totals = Totals()
        self.timings = TimingRing()
        self._config = config
        self._verifier = verifier
        self._candidates = candidates
        self._live = LiveRequests(config.max_waiting, _first_epoch(), self.totals)
        self._progress = Progress(config.stall_s)
        self._scheduler_id = f"scheduler-{uuid.uuid4().hex[:12]}"
        self._loop: StepLoop | None = None
        self._is_draining = False

    async def run(self) -> None:
        """Serve until cancelled; a verifier that was lost is waited for."""
        if self._candidates is not None:
            self._candidates.connect()
        while True:
            info = await self._verifier.connect()
            log.info("verifier: %s on %s, %s", info.model_id, info.device, info.exactness)
            self._loop = self._build_loop(info)
            try:
                await self._loop.run()
            except VerifierLost as error:
                log.error("the verifier is lost: %s", error)
                self._loop = None
                self._live.fail_all(BackendUnavailable("verifier", error.message))

    def submit(self, spec: RequestSpec) -> Request:
        """Check and queue a request; its events are in ``Request.stream``.

        Raises InvalidArgument, ContextLength, DuplicateRequest, QueueFull, NotReady, Draining, or
        BackendUnavailable while the verifier is lost.
        """
        if self._is_draining:
            raise Draining("this scheduler is shutting down")
        info = self._verifier.info
        if self._loop is None:
            raise BackendUnavailable("verifier", "does not answer")
        known = self._candidates.info if self._candidates is not None else None
        spec = Limits.of(info, known.sources if known is not None else None).check(spec)
        request = self._live.submit(spec)
        self._wake()
        return request

    def cancel(self, request: Request) -> None:
        """The client is gone: free everything in the next step. Harmless after the end."""
        if self._live.cancel(request):
            self._wake()

    def stop(self, request_id: str) -> None:
        """End a request in good order; raises UnknownRequest."""
        self._live.stop(request_id)
        self._wake()

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests, let the live ones end, then end the rest with an error."""
        self._is_draining = True
        give_up_at = time.monotonic() + timeout_s
        while len(self._live) and time.monotonic() < give_up_at:
            await asyncio.sleep(DRAIN_POLL_S)
        self._live.fail_all(Draining("this scheduler is shutting down"))
        self._wake()
        give_up_at = max(give_up_at, time.monotonic() + RELEASE_S)
        while not self._progress.is_idle and time.monotonic() < give_up_at:
            await asyncio.sleep(DRAIN_POLL_S)

    @property
    def info(self) -> SchedulerInfo:
        """Raises NotReady before a verifier has answered."""
        known = self._candidates.info if self._candidates is not None else None
        sources = known.sources if known is not None else ()
        return SchedulerInfo(self._verifier.info, sources, self._config.policy)

    @property
    def status(self) -> SchedulerStatus:
        num_blocks = self._verifier.info.num_blocks if self._verifier.is_known else 0
        return SchedulerStatus(
            num_running=len(self._live.running),
            num_waiting=len(self._live.waiting),
            num_free_blocks=self._loop.num_free_blocks if self._loop else num_blocks,
            num_blocks=num_blocks,
            totals=self.totals,
        )

    @property
    def is_idle(self) -> bool:
        return self._progress.is_idle

    @property
    def problem(self) -> DSparkError | None:
        """Why no requests are served well now, if so: a verifier answers and steps go on ending."""
        if self._is_draining:
            return Draining("this scheduler is shutting down")
        if not self._verifier.is_known:
            return NotReady("no verifier has answered yet")
        if not self._verifier.is_answering:
            return BackendUnavailable("verifier", "does not answer")
        if self._progress.is_stalled:
            return BackendUnavailable("verifier", "does not finish a step")
        return None

    @property
    def is_healthy(self) -> bool:
        """Ready for requests."""
        return self.problem is None

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def _build_loop(self, info: VerifierInfo) -> StepLoop:
        config = self._config
        drafting = self._build_drafting(info)
        self._live.set_end_listener(drafting.end)
        batcher = Batcher(
            config.max_num_seqs,
            min(config.max_num_batched_tokens, info.max_step_rows),
            info.block_size,
            info.num_blocks,
        )
        return StepLoop(
            self._scheduler_id,
            self._live,
            batcher,
            drafting,
            self._verifier,
            ResultApplier(self._live, self.totals, drafting.learn),
            self._progress,
            self.timings,
        )

    def _build_drafting(self, info: VerifierInfo) -> Drafting:
        config = self._config
        settings = PolicySettings(config.num_draft_tokens, config.min_gain, config.explore_share)
        limits = DraftLimits(
            info.vocab_size,
            Limits.of(info, None).max_len,
            config.max_draft_tokens,
            config.mute_after,
            config.mute_steps,
        )
        return Drafting(
            POLICIES[config.policy](settings),
            self._candidates,
            limits,
            OnlineCosts.measured(info.verify_costs),
        )


def _first_epoch() -> int:
    return max(1, int((time.time() - _EPOCH_ZERO_S) * _EPOCHS_PER_S) & 0x7FFF_FFFF)
