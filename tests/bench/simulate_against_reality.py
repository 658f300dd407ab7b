"""How well ``dspark simulate`` predicts the tokens a second of a real system.

    python tests/bench/simulate_against_reality.py --prompts PROMPTS.json --record-at 8

Real services run the prompts at each concurrency, with speculation and without, while the scheduler
records its calls. From what the calls of one concurrency took, ``--record-at``, comes a model of the
system; the requests of each run, as long as they were, are then simulated with it. The throughput of
no run enters the model. ``--record FILE`` takes the model from another run's record, such as one
under the policy ``fixed``, which asks candidates in every step and so shows what they know
everywhere. Prints a Markdown table of predicted and measured tokens a second. Run it on a machine
that does nothing else: what another process takes differs from run to run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dspark.cli.benchmark.aggregate import Run, acceptance_length
from dspark.cli.benchmark.load import LoadSettings, run_load
from dspark.cli.benchmark.plan import BenchPrompt, load_prompts, plan_requests
from dspark.cli.embedded import embedded_services
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.cli.simulate.calibration_record import read_record
from dspark.cli.simulate.experiment import Experiment, Load
from dspark.cli.simulate.fleet import addresses
from dspark.cli.simulate.load import Outcome, Prefixes, run_closed
from dspark.cli.simulate.results import Targets, report
from dspark.cli.simulate.system import System
from dspark.cli.simulate.workload import Arrival
from dspark.client import AsyncClient
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.scheduler import Scheduler

VARIABLE = "DSPARK_RECORD_CALLS"
TARGETS = Targets(ttft_ms=1000.0, tpot_ms=100.0)
# The record is written to its file once a second.
FLUSH_S = 1.5


@dataclass(frozen=True)
class Measured:
    """A real run, and which bytes of the record are its own."""

    run: Run
    start: int
    end: int


async def measure(
    client: AsyncClient, prompts: list[BenchPrompt], options: argparse.Namespace, record: Path
) -> list[Measured]:
    settings = LoadSettings(options.max_tokens, 0.0, use_prefix_cache=False)
    found = []
    for concurrency in options.concurrency:
        requests = plan_requests(prompts, concurrency, 0)[: max(options.requests, concurrency)]
        for speculation in (True, False):
            start = record.stat().st_size
            run = await run_load(
                client, requests, settings, speculation=speculation, concurrency=concurrency
            )
            await asyncio.sleep(FLUSH_S)
            await run_load(client, requests[:1], LoadSettings(2, 0.0, False), **_ONE)
            found.append(Measured(run, start, record.stat().st_size))
    return found


_ONE = {"speculation": False, "concurrency": 1}


async def measure_all(options: argparse.Namespace, record: Path) -> list[Measured]:
    prompts = load_prompts(options.prompts)
    config = ServicesConfig(model=options.model, policy=options.policy)
    os.environ[VARIABLE] = str(record)
    async with embedded_services(config, Progress()) as address, AsyncClient(address) as client:
        await run_load(client, plan_requests(prompts, 1, 0), LoadSettings(8, 0.0, False), **_ONE)
        return await measure(client, prompts, options, record)


def model_of(measured: list[Measured], options: argparse.Namespace, record: Path) -> System:
    """From the runs at one concurrency, or from the record of another run."""
    if options.record is not None:
        return read_record(options.record)
    text = record.read_bytes()
    told = [line for line in text.splitlines() if b'"kind":"step"' not in line[:20]]
    head = [line for line in told if b'"kind":"propose"' not in line[:20]]
    own = [
        line
        for each in measured
        if each.run.concurrency == options.record_at
        for line in whole_lines(text[each.start : each.end])
    ]
    part = record.with_suffix(".part")
    part.write_bytes(b"\n".join([*head, *own]) + b"\n")
    return read_record(part)


def whole_lines(part: bytes) -> Iterator[bytes]:
    """Those that the part has from end to end, and that are of steps or proposals."""
    for line in part.splitlines():
        try:
            kind = json.loads(line)["kind"]
        except (ValueError, TypeError, KeyError):
            continue
        if kind in ("step", "propose"):
            yield line


def predict(system: System, run: Run, policy: str, options: argparse.Namespace) -> dict:
    """The report of the same requests, simulated."""
    arrivals = [
        Arrival(each.usage.prompt_tokens, max(len(each.token_ids), 1)) for each in run.completions
    ]
    name = policy if run.speculation else "off"
    config = SchedulerConfig(verifier=addresses(1), policy=name)
    experiment = Experiment(system, (1.0,), config, options.seed)
    return report(experiment.run(sending(arrivals, run.concurrency), run.concurrency), TARGETS)


def sending(arrivals: list[Arrival], concurrency: int) -> Load:
    async def load(scheduler: Scheduler) -> list[Outcome]:
        return await run_closed(scheduler, arrivals, concurrency, Prefixes())

    return load


def table(measured: list[Measured], system: System, options: argparse.Namespace) -> str:
    lines = [
        "| in flight | speculation | measured tokens/s | predicted | ratio "
        "| accepted, measured | predicted |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in measured:
        run = each.run
        found = predict(system, run, options.policy or SchedulerConfig.policy, options)
        lines.append(
            f"| {run.concurrency} | {'on' if run.speculation else 'off'} | {run.tokens_per_s:.1f} "
            f"| {found['tokens_per_s']:.1f} | {found['tokens_per_s'] / run.tokens_per_s:.2f} "
            f"| {acceptance_length(run.completions):.2f} | {found['acceptance_length']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Predicted and measured tokens a second.")
    parser.add_argument("--prompts", type=Path, required=True, help="as for dspark bench")
    parser.add_argument(
        "--concurrency",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[1, 8, 32],
    )
    parser.add_argument("--record-at", type=int, default=8, help="concurrency of the model")
    parser.add_argument("--record", type=Path, help="take the model from this record instead")
    parser.add_argument("--keep-record", type=Path, help="leave the record of this run there")
    parser.add_argument("--requests", type=int, default=40, help="most requests of a run")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--policy")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = options.keep_record or Path(folder) / "calls.jsonl"
        record.write_bytes(b"")
        measured = asyncio.run(measure_all(options, record))
        print(table(measured, model_of(measured, options, record), options))


if __name__ == "__main__":
    main()
