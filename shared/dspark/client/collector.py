"""Collects the events of one stream into a Completion, with the client's own times."""

from __future__ import annotations

from itertools import pairwise

from dspark.client.results import Chunk, Completion, Finished, Started
from dspark.errors import InternalError
from dspark.tool_calls import joined_calls


class Collector:
    """Fed each event with its arrival time in seconds; it has no clock of its own."""

    def __init__(self, sent_at: float) -> None:
        self._sent_at = sent_at
        self._chunks: list[Chunk] = []
        self._token_times: list[float] = []
        self.started: Started | None = None

    def add_started(self, started: Started) -> None:
        self.started = started

    def add_chunk(self, chunk: Chunk, now: float) -> None:
        self._chunks.append(chunk)
        if chunk.token_ids:
            self._token_times.append(now)

    def finish(self, finished: Finished, now: float) -> Completion:
        """The whole completion; raises InternalError if the stream never started."""
        if self.started is None:
            raise InternalError("the stream ended before it started")
        times = self._token_times
        return Completion(
            request_id=self.started.request_id,
            model=self.started.model,
            seed=self.started.seed,
            text="".join(chunk.text for chunk in self._chunks),
            token_ids=tuple(token for chunk in self._chunks for token in chunk.token_ids),
            finish_reason=finished.finish_reason,
            stop_reason=finished.stop_reason,
            usage=finished.usage,
            speculation=finished.speculation,
            steps=finished.steps,
            ttft_ms=((times[0] if times else now) - self._sent_at) * 1e3,
            itl_ms=tuple((b - a) * 1e3 for a, b in pairwise(times)),
            elapsed_ms=(now - self._sent_at) * 1e3,
            logprobs=tuple(told for chunk in self._chunks for told in chunk.logprobs),
            prompt_logprobs=tuple(told for chunk in self._chunks for told in chunk.prompt_logprobs),
            reasoning="".join(chunk.reasoning for chunk in self._chunks),
            tool_calls=joined_calls([d for chunk in self._chunks for d in chunk.tool_calls]),
            calls_tools=finished.calls_tools,
            reasoning_tokens=finished.reasoning_tokens,
        )
