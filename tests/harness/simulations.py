"""Small simulations: a verifier whose pass takes a round time, sources that are often right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dspark.cli.simulate.candidates_model import CandidatesModel
from dspark.cli.simulate.experiment import Experiment, Load
from dspark.cli.simulate.fleet import addresses
from dspark.cli.simulate.lengths import Uniform
from dspark.cli.simulate.load import Outcome, Prefixes, run_closed, run_open
from dspark.cli.simulate.processor import SchedulerModel
from dspark.cli.simulate.results import Run
from dspark.cli.simulate.source_model import SourceModel
from dspark.cli.simulate.system import System
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.cli.simulate.workload import Arrival, Shape, closed_loop, open_loop
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.scheduler import Scheduler
from dspark.step import VerifyCost

# 10 ms for up to 16 rows, then half a millisecond for each further one.
COSTS = (VerifyCost(1, 10.0), VerifyCost(16, 10.0), VerifyCost(144, 74.0))
SOURCE = SourceModel("a", (0.8,), max_depth=4)
CANDIDATES = CandidatesModel(call_ms=0.5, sources=(SOURCE,))


def system(candidates: CandidatesModel | None = CANDIDATES, **verifier: Any) -> System:
    sizes: dict[str, Any] = {"num_blocks": 4096, "verify_costs": COSTS}
    return System(VerifierModel(**sizes | verifier), SchedulerModel(), candidates)


def closed(count: int, concurrency: int, prompt: int = 16, output: int = 40) -> Load:
    """All alike, so many at a time."""
    arrivals = closed_loop(Shape(Uniform(prompt, prompt), Uniform(output, output), 0), count)
    return sending(arrivals, concurrency=concurrency)


def poisson(count: int, rate: float, prompt: int = 16, output: int = 40) -> Load:
    shape = Shape(Uniform(prompt, prompt), Uniform(output, output), 0)
    return sending(open_loop(shape, count, rate))


def sending(
    arrivals: Sequence[Arrival], concurrency: int = 0, prefixes: Prefixes | None = None
) -> Load:
    """At their times, or so many at a time."""
    prefixes = prefixes or Prefixes()

    async def load(scheduler: Scheduler) -> list[Outcome]:
        if concurrency:
            return await run_closed(scheduler, arrivals, concurrency, prefixes)
        return await run_open(scheduler, arrivals, prefixes)

    return load


def simulate(
    load: Load,
    of: System | None = None,
    policy: str = "off",
    speeds: Sequence[float] = (1.0,),
    seed: int = 0,
    **settings: Any,
) -> Run:
    names = addresses(len(speeds)), addresses(len(speeds), "candidates")
    config = SchedulerConfig(verifier=names[0], candidates=names[1], policy=policy, **settings)
    return Experiment(of or system(), speeds, config, seed).run(load, 1.0)
