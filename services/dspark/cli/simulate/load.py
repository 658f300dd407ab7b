"""Sends the requests of a workload to a scheduler, and notes when their tokens come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from dspark.cli.simulate.keyed_draws import key_of, uniform
from dspark.cli.simulate.workload import Arrival
from dspark.clock import monotonic
from dspark.errors import DSparkError
from dspark.generation import RequestSpec, TokenChunk
from dspark.request_class import RequestClass
from dspark.sampling import SamplingParams, SpeculationStats
from dspark.scheduler.scheduler import Scheduler

# Prompts are written in digits of this base, so that no two of them begin alike unasked.
_DIGITS = 512
_PREFIX = key_of("prefix")


@dataclass(slots=True)
class Outcome:
    """What became of one request; times in seconds since the run began."""

    arrival: Arrival
    sent_s: float
    # each time that tokens came, with how many
    chunks: list[tuple[float, int]] = field(default_factory=list)
    ended_s: float = 0.0
    speculation: SpeculationStats = field(default_factory=SpeculationStats)
    # why it failed, or was not taken: the reason, and what was wrong in words
    error: str = ""
    problem: str = ""

    @property
    def num_tokens(self) -> int:
        return sum(count for _, count in self.chunks)


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Of each prompt the first ``num_tokens``, if it is as long, are those of one in ``groups``."""

    num_tokens: int = 0
    groups: int = 1

    def prompt(self, number: int, length: int) -> tuple[int, ...]:
        """Token ids of a request's prompt, which no other request has in the same place."""
        shared = min(self.num_tokens, length - 1) if self.num_tokens else 0
        group = int(uniform(_PREFIX, number) * self.groups)
        return (group + 2,) * shared + _own_tokens(number, length - shared)


async def run_open(
    scheduler: Scheduler, arrivals: Sequence[Arrival], prefixes: Prefixes
) -> list[Outcome]:
    """Send each request at its time."""
    began = monotonic()

    async def send(number: int, arrival: Arrival) -> Outcome:
        await asyncio.sleep(began + arrival.arrival_s - monotonic())
        return await _request(scheduler, number, arrival, prefixes, began)

    async with asyncio.TaskGroup() as tasks:
        sent = [tasks.create_task(send(n, arrival)) for n, arrival in enumerate(arrivals)]
    return [task.result() for task in sent]


async def run_closed(
    scheduler: Scheduler, arrivals: Sequence[Arrival], concurrency: int, prefixes: Prefixes
) -> list[Outcome]:
    """Keep ``concurrency`` requests in flight until all were sent."""
    began = monotonic()
    left = iter(enumerate(arrivals))
    outcomes: list[Outcome] = []

    async def client() -> None:
        for number, arrival in left:
            outcomes.append(await _request(scheduler, number, arrival, prefixes, began))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(concurrency, len(arrivals))):
            tasks.create_task(client())
    return outcomes


async def _request(
    scheduler: Scheduler, number: int, arrival: Arrival, prefixes: Prefixes, began: float
) -> Outcome:
    outcome = Outcome(arrival, monotonic() - began)
    try:
        live = scheduler.submit(_spec(number, arrival, prefixes))
        async for event in live.stream:
            now = monotonic() - began
            if isinstance(event, TokenChunk):
                outcome.chunks.append((now, len(event.token_ids)))
            else:
                outcome.speculation = event.speculation
    except DSparkError as error:
        outcome.error, outcome.problem = error.reason, error.message
    outcome.ended_s = monotonic() - began
    return outcome


def _spec(number: int, arrival: Arrival, prefixes: Prefixes) -> RequestSpec:
    return RequestSpec(
        f"r{number}",
        prefixes.prompt(number, arrival.prompt_tokens),
        SamplingParams(temperature=0.0, max_tokens=arrival.output_tokens, ignore_eos=True),
        use_prefix_cache=prefixes.num_tokens > 0,
        request_class=RequestClass(arrival.request_class or RequestClass.INTERACTIVE.value),
        tenant=arrival.tenant,
    )


def _own_tokens(number: int, length: int) -> tuple[int, ...]:
    digits = []
    left = number + 1
    while left:
        digits.append(left % _DIGITS + _DIGITS)
        left //= _DIGITS
    return tuple((digits + [0] * length)[:length])
