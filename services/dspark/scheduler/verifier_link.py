"""The verifier as the step loop sees it: described once, and stepped until it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from dspark.clock import monotonic
from dspark.errors import BackendUnavailable, Draining, DSparkError, NotReady
from dspark.log_limiter import LogLimiter
from dspark.scheduler.step_patience import StepPatience
from dspark.step import StepOutcome, StepPlan, VerifierInfo

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.02
MAX_BACKOFF_S = 0.2


class Verifier(Protocol):
    """What the link needs of a client."""

    async def info(self) -> VerifierInfo: ...
    async def step(self, plan: StepPlan) -> StepOutcome: ...
    async def is_ready(self) -> bool: ...


class VerifierLost(DSparkError):
    """The verifier did not answer for too long, or came back as another model."""


class VerifierLink:
    """Replays a step until it is answered: the verifier stores its reply or computes it anew.

    That is given up after ``timeout_s``; and after ``failover_s``, or when the verifier says that
    it ends, while ``has_heir``: another one can go on with the requests.
    """

    def __init__(
        self,
        client: Verifier,
        timeout_s: float,
        failover_s: float = 0.0,
        has_heir: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._failover_s = failover_s
        self._has_heir = has_heir
        self._patience = StepPatience()
        self._info: VerifierInfo | None = None
        self._limiter = LogLimiter()
        self.is_answering = False
        # steps that were sent again
        self.num_replays = 0

    @property
    def info(self) -> VerifierInfo:
        """Raises NotReady before the verifier has answered once."""
        if self._info is None:
            raise NotReady("no verifier has answered yet")
        return self._info

    @property
    def is_known(self) -> bool:
        return self._info is not None

    async def connect(self) -> VerifierInfo:
        """Ask until the verifier describes itself; its model then is the one to serve."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                self._info = await self._client.info()
            except (BackendUnavailable, NotReady) as error:
                if self._limiter.is_due(error.message):
                    log.warning("no verifier to use: %s", error)
                self.is_answering = False
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)
            else:
                self.is_answering = True
                return self._info

    async def step(self, plan: StepPlan) -> StepOutcome:
        """The outcome of the step, computed once however often it is asked for.

        Raises VerifierLost when the verifier stays away, and what the verifier raised when it
        refuses.
        """
        started = monotonic()
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                if not self.is_answering:
                    await self.check_unchanged()
                called = monotonic()
                async with asyncio.timeout(self._call_timeout_s()):
                    outcome = await self._client.step(plan)
            except (BackendUnavailable, NotReady, TimeoutError) as error:
                if isinstance(error, TimeoutError):
                    self._patience.ran_out()
                self._say_lost(plan, error)
                give_up_at = started + self._patience_s(error)
                if monotonic() > give_up_at:
                    raise _lost_after(started) from error
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)
                await self._recover(started, give_up_at)
                self.num_replays += 1
            else:
                self._patience.took(monotonic() - called)
                self.is_answering = True
                return outcome

    async def is_ready(self) -> bool:
        """What its health service says now."""
        return await self._client.is_ready()

    async def check_unchanged(self) -> None:
        """Raises VerifierLost if what answers now is not what was described, BackendUnavailable or
        NotReady if nothing does.
        """
        if not _can_replace(await self._client.info(), self.info):
            raise VerifierLost("the verifier came back with another model or KV pool")
        self.is_answering = True

    def _call_timeout_s(self) -> float | None:
        """None leaves it to the client's own deadline."""
        if not self._has_heir():
            return None
        slowest_ms = max((c.milliseconds for c in self.info.verify_costs), default=0.0)
        return self._patience.seconds(self._failover_s, slowest_ms / 1e3)

    def _patience_s(self, error: Exception) -> float:
        if not self._has_heir():
            return self._timeout_s
        return 0.0 if isinstance(error, Draining) else self._failover_s

    async def _recover(self, started: float, give_up_at: float) -> None:
        """Wait until it answers; a replay is exact only on the same weights and arithmetic."""
        before = self.info
        try:
            async with asyncio.timeout(max(give_up_at - monotonic(), 0)):
                after = await self.connect()
        except TimeoutError as error:
            raise _lost_after(started) from error
        if not _can_replace(after, before):
            raise VerifierLost("the verifier came back with another model or KV pool")

    def _say_lost(self, plan: StepPlan, error: Exception) -> None:
        if self.is_answering:
            why = str(error) or "no reply in time"
            log.warning("step %d is not answered, repeating it: %s", plan.step_id, why)
        self.is_answering = False


def _lost_after(started: float) -> VerifierLost:
    return VerifierLost(f"no answer for {monotonic() - started:.1f} s")


def _can_replace(after: VerifierInfo, before: VerifierInfo) -> bool:
    """Whether steps that were planned for one can be given to the other."""
    exports_all = set(after.feature_layers).issuperset(before.feature_layers)
    return _identity(after) == _identity(before) and exports_all


def _identity(info: VerifierInfo) -> tuple[object, ...]:
    return (
        info.arithmetic,
        info.max_model_len,
        info.block_size,
        info.num_blocks,
    )
