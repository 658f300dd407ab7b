"""A gateway's token source in memory, for units that need only its info."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from dspark.errors import DSparkError
from dspark.gateway.token_source import (
    GenerationRequest,
    SchedulerInfo,
    SchedulerStatus,
)
from dspark.generation import StreamEvent

INFO = SchedulerInfo(
    vocab_size=300,
    max_model_len=32,
    max_pool_tokens=1000,
    eos_token_ids=frozenset({256}),
    sources=("suffix", "recycle"),
    exactness="strict",
    policy="fixed",
)


class ScriptedSource:
    """Answers ``info`` with ``answer``: returns it, or raises it if it is an error."""

    def __init__(self, answer: SchedulerInfo | DSparkError = INFO) -> None:
        self.answer = answer

    async def info(self) -> SchedulerInfo:
        if isinstance(self.answer, DSparkError):
            raise self.answer
        return self.answer

    async def stop(self, request_id: str) -> None:
        raise NotImplementedError

    async def status(self) -> SchedulerStatus:
        raise NotImplementedError

    def generate(
        self, request: GenerationRequest, timeout_s: float | None
    ) -> AsyncGenerator[StreamEvent, None]:
        raise NotImplementedError
