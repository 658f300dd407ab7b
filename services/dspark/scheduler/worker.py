"""One verifier, the requests that it serves, and the loop that steps it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from dspark.errors import BackendUnavailable, DSparkError, NotReady
from dspark.generation import RequestSpec
from dspark.scheduler.batcher import Batcher
from dspark.scheduler.books import Books
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.draft_knowledge import DraftKnowledge
from dspark.scheduler.limits import Limits
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.prefix_record import PrefixRecord, block_hashes
from dspark.scheduler.progress import Progress
from dspark.scheduler.request import Request
from dspark.scheduler.step_books import StepBooks
from dspark.scheduler.step_loop import StepLoop
from dspark.scheduler.verifier_link import VerifierLink, VerifierLost
from dspark.scheduler.wave_loops import LoopMaker
from dspark.scheduler.waves import Waves
from dspark.step import VerifierInfo

log = logging.getLogger(__name__)

# An idle loop would not notice that its verifier is gone, so it is asked this often.
PROBE_INTERVAL_S = 2.0
# After a failure that nobody foresaw.
FAILURE_PAUSE_S = 1.0


class Worker:
    """Serves requests on one verifier, with candidates from one service or none.

    ``name`` is the verifier's address. ``on_lost(worker, error)`` is called when the verifier is
    given up; what the worker holds of requests then is to be taken away from it.
    """

    def __init__(
        self,
        name: str,
        config: SchedulerConfig,
        verifier: VerifierLink,
        candidates: CandidatesLink | None,
        books: Books,
        on_lost: Callable[[Worker, VerifierLost], None],
    ) -> None:
        self.name = name
        self.verifier = verifier
        self.candidates = candidates
        self.live = LiveRequests(
            config.max_waiting, books.numbers, books.totals, config, books.outputs
        )
        self.progress = Progress(config.stall_s)
        self.steps = StepBooks(books.totals.iteration_tokens)
        # None before its verifier has answered
        self.knowledge: DraftKnowledge | None = None
        self.waves: Waves | None = None
        # with the limit of rows that the verifier has by itself
        self.batcher: Batcher | None = None
        # What its prefix cache may have, with the instance of the verifier that has it.
        self._prefixes: tuple[str, PrefixRecord] | None = None
        self._maker = LoopMaker(
            config, self.live, verifier, candidates, books, self.progress, self.steps
        )
        self._on_lost = on_lost
        # one for each wave that there may be; none while its verifier is given up
        self._loops: tuple[StepLoop, ...] = ()
        self._is_retired = False
        # of the verifier that this loop began with; another one may answer at its address later
        self._arithmetic: str | None = None
        # Finished steps when the verifier was given up with sequences to free, which is its trial.
        self._num_steps_at_loss: int | None = None

    async def run(self) -> None:
        """Serve until cancelled, after ``retire``; a verifier that was lost is waited for."""
        if self.candidates is not None:
            self.candidates.connect()
        while not self._is_retired:
            info = await self.verifier.connect()
            log.info("verifier %s: %s on %s, %s", self.name, info.model_id, info.device, info.dtype)
            self._begin(info)
            try:
                await self._step_and_probe(self._loops)
            except* VerifierLost as errors:
                log.error("verifier %s is lost: %s", self.name, errors.exceptions[0])
                self._give_up(str(errors.exceptions[0]))
            except* Exception as errors:
                # A bug; whatever it is, requests are better off elsewhere than with nobody.
                log.error("verifier %s is given up", self.name, exc_info=errors.exceptions[0])
                self._give_up("cannot be driven")
                await asyncio.sleep(FAILURE_PAUSE_S)

    def retire(self) -> None:
        """Do not begin again: a task group that fails while it is cancelled tells of that only."""
        self._is_retired = True

    def _give_up(self, problem: str) -> None:
        self._loops = ()
        self.steps.num_losses += 1
        self.progress.idle()
        self._on_lost(self, VerifierLost(problem))
        self._num_steps_at_loss = self.steps.num_steps if self.live.releases else None

    def wake(self) -> None:
        """There may be work: a request came, or went."""
        for loop in self._loops:
            loop.wake()

    def limit_rows(self, max_rows: int) -> None:
        """Rows of a step; at least as many as requests may run."""
        for loop in self._loops:
            loop.limit_rows(max_rows)

    @property
    def is_serving(self) -> bool:
        """Whether requests given to it are stepped now."""
        return self.has_loop and self.problem is None

    @property
    def problem(self) -> DSparkError | None:
        """Why it serves no requests well now: its verifier is silent, or steps do not end.

        One that hangs may well describe itself: what it has to show is a step.
        """
        if not self.verifier.is_known:
            return NotReady("no verifier has answered yet")
        if not self.verifier.is_answering:
            return BackendUnavailable("verifier", "does not answer")
        if self.steps.num_steps == self._num_steps_at_loss:
            return BackendUnavailable("verifier", "was given up and has not finished a step since")
        if self.progress.is_stalled:
            return BackendUnavailable("verifier", "does not finish a step")
        return None

    @property
    def known_sources(self) -> tuple[str, ...] | None:
        """The sources of its candidates service; None before it has named them."""
        info = self.candidates.info if self.candidates is not None else None
        return None if info is None else info.sources

    @property
    def num_blocks(self) -> int:
        return self.verifier.info.num_blocks if self.verifier.is_known else 0

    @property
    def num_free_blocks(self) -> int:
        return self.waves.blocks.reported if self.waves and self.has_loop else self.num_blocks

    @property
    def arithmetic(self) -> str:
        """Where it is equal, so are the tokens of a request; empty while there is no verifier."""
        return self._arithmetic or ""

    def likely_cached(self, spec: RequestSpec, token_ids: Sequence[int]) -> int:
        """How many of a request's first tokens need no computing here, as far as is known."""
        record = self._record()
        if record is None or not spec.use_prefix_cache:
            return 0
        hashes = block_hashes(spec.cache_salt, token_ids, record.block_size)
        return record.num_tokens(hashes[: (len(token_ids) - 1) // record.block_size])

    def note_prefix(self, request: Request) -> None:
        """The verifier gets the request's tokens, or had them, and caches what it computes."""
        record, spec = self._record(), request.spec
        if record is None or not spec.use_prefix_cache:
            return
        hashes = block_hashes(spec.cache_salt, request.token_ids, record.block_size)
        request.num_likely_cached = record.num_tokens(hashes)
        record.note(hashes)

    def _record(self) -> PrefixRecord | None:
        """An empty one where the verifier began anew since."""
        if not self.verifier.is_known:
            return None
        instance, info = self.verifier.instance_id, self.verifier.info
        if self._prefixes is None or self._prefixes[0] != instance:
            self._prefixes = instance, PrefixRecord(info.block_size, info.num_blocks)
        return self._prefixes[1]

    def _ended(self, request: Request, completed: bool) -> None:
        if request.epoch:
            self.note_prefix(request)
        if self.knowledge is not None:
            self.knowledge.end(request, completed)
        for loop in self._loops:
            loop.forget(request)

    def can_inherit(self, other: Worker) -> bool:
        """Whether requests of the other one get here the tokens that they were going to get."""
        return self.is_serving and self._arithmetic == other._arithmetic

    def computes_as(self, arithmetic: str) -> bool:
        """Whether requests get here the tokens of that arithmetic; any will do if it is empty."""
        return not arithmetic or self._arithmetic == arithmetic

    @property
    def max_len(self) -> int:
        """Largest number of prompt and generated tokens of one request."""
        return Limits.of(self.verifier.info, None).max_len

    @property
    def has_loop(self) -> bool:
        """Whether its verifier was not given up; it may be silent for the moment."""
        return bool(self._loops)

    @property
    def is_needed(self) -> bool:
        """Whether it has something to do for requests, also where it gets no new ones.

        Its verifier may still answer: its requests end there, or it is lost and they move.
        """
        return bool(len(self.live)) or (self.has_loop and bool(self.live.releases))

    async def _step_and_probe(self, loops: Sequence[StepLoop]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for loop in loops:
                tasks.create_task(loop.run(), name=f"steps of {self.name}")
            tasks.create_task(self._probe(), name=f"probe of {self.name}")

    async def _probe(self) -> None:
        """Ask an idle verifier for its health; one that comes back must be what it was."""
        while True:
            await asyncio.sleep(PROBE_INTERVAL_S)
            if not self.progress.is_idle:
                continue
            if not await self.verifier.is_ready():
                self.verifier.is_answering = False
            elif not self.verifier.is_answering or self.verifier.is_ending:
                with contextlib.suppress(BackendUnavailable, NotReady):
                    await self.verifier.check_unchanged()

    def _begin(self, info: VerifierInfo) -> None:
        """A verifier answers, for the first time or again: all that steps it is made anew."""
        knowledge = self.knowledge = self._maker.knowledge(info)
        self.live.set_end_listener(self._ended)
        waves = self.waves = self._maker.waves(info)
        batcher = self.batcher = self._maker.batcher(info)
        self._loops = self._maker.loops(info, knowledge, batcher, waves)
        self._arithmetic = info.arithmetic_name
