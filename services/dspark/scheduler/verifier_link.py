"""The verifier as the step loop sees it: described once, and stepped until it answers."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Protocol

from dspark.errors import BackendUnavailable, DSparkError, NotReady
from dspark.step import StepOutcome, StepPlan, VerifierInfo

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.02
MAX_BACKOFF_S = 0.2


class Verifier(Protocol):
    """What the link needs of a client."""

    async def info(self) -> VerifierInfo: ...
    async def step(self, plan: StepPlan) -> StepOutcome: ...


class VerifierLost(DSparkError):
    """The verifier did not answer for too long, or came back as another model."""


class VerifierLink:
    """Replays a step until it is answered: the verifier stores its reply or computes it anew."""

    def __init__(self, client: Verifier, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._info: VerifierInfo | None = None
        self.is_answering = False

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
            except (BackendUnavailable, NotReady):
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
        give_up_at = time.monotonic() + self._timeout_s
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                outcome = await self._client.step(plan)
            except (BackendUnavailable, NotReady) as error:
                self._say_lost(plan, error)
                if time.monotonic() > give_up_at:
                    raise VerifierLost(f"no answer for {self._timeout_s:g} s") from error
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)
                await self._recover(give_up_at)
            else:
                self.is_answering = True
                return outcome

    async def _recover(self, give_up_at: float) -> None:
        """Wait until it answers; a replay is exact only on the same weights and arithmetic."""
        before = self.info
        try:
            async with asyncio.timeout(max(give_up_at - time.monotonic(), 0)):
                after = await self.connect()
        except TimeoutError as error:
            raise VerifierLost(f"no answer for {self._timeout_s:g} s") from error
        if _identity(after) != _identity(before):
            raise VerifierLost("the verifier came back with another model or KV pool")

    def _say_lost(self, plan: StepPlan, error: DSparkError) -> None:
        if self.is_answering:
            log.warning("step %d is not answered, repeating it: %s", plan.step_id, error)
        self.is_answering = False


def _identity(info: VerifierInfo) -> tuple[object, ...]:
    return (
        info.model_digest,
        info.dtype,
        info.kernel_class,
        info.vocab_size,
        info.max_model_len,
        info.block_size,
        info.num_blocks,
    )
