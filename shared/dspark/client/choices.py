"""Several completions of one prompt, out of one stream."""

from __future__ import annotations

from typing import Any

from dspark.client import wire
from dspark.client.collector import Collector
from dspark.client.results import Completion
from dspark.errors import InternalError, InvalidArgument
from dspark.v1 import inference_service_pb2 as pb

# What the field holds.
_MAX = 2**32 - 1


def checked_n(n: Any) -> int:
    """Raises InvalidArgument for what is no number of choices."""
    if type(n) is not int or not 1 <= n <= _MAX:
        raise InvalidArgument("n", "must be an integer of at least 1")
    return n


class ChoiceCollector:
    """Fed each event of the stream with its arrival time in seconds."""

    def __init__(self, n: int, sent_at: float) -> None:
        self._n = n
        self._sent_at = sent_at
        self._collectors: dict[int, Collector] = {}
        self._completions: dict[int, Completion] = {}

    def add(self, event: pb.GenerateResponse, now: float) -> None:
        match event.WhichOneof("event"):
            case "started":
                collector = Collector(self._sent_at)
                collector.add_started(wire.started_from_proto(event.started))
                self._collectors[event.started.index] = collector
            case "chunk":
                chunk = wire.chunk_from_proto(event.chunk)
                self._collectors[event.chunk.index].add_chunk(chunk, now)
            case "complete":
                finished = wire.finished_from_proto(event.complete)
                index = event.complete.index
                self._completions[index] = self._collectors[index].finish(finished, now)

    def completions(self) -> tuple[Completion, ...]:
        """In the order of their choices; raises InternalError unless all have ended."""
        if sorted(self._completions) != list(range(self._n)):
            raise InternalError("the stream ended without a finish reason for each choice")
        return tuple(self._completions[index] for index in range(self._n))
