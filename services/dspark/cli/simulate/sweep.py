"""The loads of a simulation, from its settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dspark.cli.simulate.config import SimulateConfig
from dspark.cli.simulate.experiment import Load
from dspark.cli.simulate.lengths import parse_lengths
from dspark.cli.simulate.load import Outcome, Prefixes, run_closed, run_open
from dspark.cli.simulate.workload import (
    Arrival,
    Shape,
    closed_loop,
    open_loop,
    read_arrivals,
    scaled,
)
from dspark.scheduler.scheduler import Scheduler


def loads_of(config: SimulateConfig) -> Iterator[tuple[float, Load]]:
    """Each level with what sends its requests. Raises CliError for a trace that cannot be used."""
    prefixes = Prefixes(config.prefix_tokens, config.prefix_groups)
    shape = Shape(
        parse_lengths(config.prompt_tokens), parse_lengths(config.output_tokens), config.seed
    )
    trace = read_arrivals(Path(config.trace)) if config.trace is not None else []
    for level in config.levels:
        if trace:
            yield level, _open(scaled(trace, level), prefixes)
        elif config.rate is not None:
            burst = config.burst_size if config.arrivals == "burst" else 1
            yield level, _open(open_loop(shape, config.requests, level, burst), prefixes)
        else:
            yield level, _closed(closed_loop(shape, config.requests), int(level), prefixes)


def _open(arrivals: list[Arrival], prefixes: Prefixes) -> Load:
    async def load(scheduler: Scheduler) -> list[Outcome]:
        return await run_open(scheduler, arrivals, prefixes)

    return load


def _closed(arrivals: list[Arrival], concurrency: int, prefixes: Prefixes) -> Load:
    async def load(scheduler: Scheduler) -> list[Outcome]:
        return await run_closed(scheduler, arrivals, concurrency, prefixes)

    return load
