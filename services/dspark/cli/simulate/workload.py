"""The requests of a simulation: how long, how alike, and when they come."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.simulate.checks import at_least
from dspark.cli.simulate.json_fields import from_json
from dspark.cli.simulate.keyed_draws import key_of, uniform
from dspark.cli.simulate.lengths import Lengths
from dspark.cli.text_input import read_text
from dspark.request_class import RequestClass

_USAGE = 2
_PROMPT, _OUTPUT, _GAP = key_of("prompt"), key_of("output"), key_of("gap")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request; ``arrival_s`` counts from the start, and is 0 in a closed loop."""

    prompt_tokens: int
    output_tokens: int
    arrival_s: float = 0.0
    # "" is nobody in particular
    tenant: str = ""
    # a RequestClass by its name; "" is interactive
    request_class: str = ""

    def __post_init__(self) -> None:
        at_least(1, self, "prompt_tokens", "output_tokens")
        at_least(0, self, "arrival_s")
        known = [each.value for each in RequestClass]
        if self.request_class and self.request_class not in known:
            raise ValueError(f"request_class must be one of {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class Shape:
    """Lengths of requests, drawn by their numbers, so that each load gets the same ones."""

    prompt: Lengths
    output: Lengths
    seed: int

    def request(self, number: int, arrival_s: float = 0.0) -> Arrival:
        return Arrival(
            self.prompt.draw(uniform(self.seed, _PROMPT, number)),
            self.output.draw(uniform(self.seed, _OUTPUT, number)),
            arrival_s,
        )


def poisson_times(rate: float, burst: int, seed: int) -> Iterator[float]:
    """Seconds of arrivals at ``rate`` a second, ``burst`` at a time; the groups come as Poisson."""
    now = 0.0
    for group in itertools.count():
        now -= math.log(1.0 - uniform(seed, _GAP, group)) * burst / rate
        yield from itertools.repeat(now, burst)


def open_loop(shape: Shape, count: int, rate: float, burst: int = 1) -> list[Arrival]:
    """Requests that come whatever became of those before."""
    times = itertools.islice(poisson_times(rate, burst, shape.seed), count)
    return [shape.request(number, at) for number, at in enumerate(times)]


def closed_loop(shape: Shape, count: int) -> list[Arrival]:
    """Requests of which each waits for the end of one before."""
    return [shape.request(number) for number in range(count)]


def read_arrivals(path: Path) -> list[Arrival]:
    """A trace: JSON lines with arrival_s, prompt_tokens and output_tokens. Raises CliError."""
    lines = read_text(path, f"--trace {path}").splitlines()
    found = [_arrival(path, n, line) for n, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise CliError(f"--trace {path}: has no requests", _USAGE)
    return sorted(found, key=lambda each: each.arrival_s)


def scaled(arrivals: Sequence[Arrival], speed: float) -> list[Arrival]:
    """The same requests, coming ``speed`` times as fast."""
    return [
        Arrival(a.prompt_tokens, a.output_tokens, a.arrival_s / speed, a.tenant, a.request_class)
        for a in arrivals
    ]


def _arrival(path: Path, number: int, line: str) -> Arrival:
    where = f"--trace {path}: line {number}"
    try:
        data = json.loads(line)
    except ValueError as error:
        raise CliError(f"{where} is no JSON: {error}", _USAGE) from error
    return from_json(Arrival, data, where)
