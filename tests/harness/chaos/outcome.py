"""What a client saw of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from harness.chaos.stream_spec import StreamSpec


class ConnectionLost(Exception):
    """The connection to the gateway broke, or the gateway refused because it is going."""


class BrokenProtocol(Exception):
    """Events came that must not come, or in a wrong order, or an end was missing."""


@dataclass
class Answer:
    """What one attempt brought; ``finish_reason`` is None while it has not ended in good order.

    ``arrivals`` has the time of each event with something new, by time.monotonic.
    """

    started_at: float = 0.0
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    completion_tokens: int | None = None
    arrivals: list[float] = field(default_factory=list)

    @property
    def longest_pause(self) -> tuple[float, float]:
        """Its length in seconds, and when it began."""
        return max(
            ((b - a, a) for a, b in pairwise((self.started_at, *self.arrivals))),
            default=(0.0, self.started_at),
        )

    @property
    def essence(self) -> tuple[object, ...]:
        """What must be equal in every run."""
        return (
            tuple(self.token_ids),
            self.text,
            self.finish_reason,
            self.stop_reason,
            self.completion_tokens,
        )


@dataclass
class Outcome:
    """How a request went. ``broken`` are the attempts that ended with the connection.

    ``error`` says what else went wrong; a client that hung up on purpose has ``hung_up``.
    """

    spec: StreamSpec
    answer: Answer = field(default_factory=Answer)
    broken: list[tuple[float, Answer]] = field(default_factory=list)
    error: str | None = None
    hung_up: bool = False
