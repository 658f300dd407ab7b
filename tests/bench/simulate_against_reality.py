"""How well ``dspark simulate`` predicts the tokens a second of a real system.

    python tests/bench/simulate_against_reality.py --prompts PROMPTS.json --out FOLDER

Real services run the prompts at each concurrency, with speculation and without, while the
scheduler records its calls. What the calls took, at the concurrencies of ``--record-at``, gives a
model of the system; the requests of each run, as long as they were, are then simulated with it. The
throughput of no run enters a model. Prints a Markdown table of measured and predicted tokens a
second for each ``--record-at``, which may be several; at ``own`` each run is predicted from its own
calls, which leaves out what the machine did to one run and not to another.

FOLDER keeps what was measured: with ``--measured FOLDER`` the simulations are done again without
services. ``--record FILE`` takes the model from another run's record, such as one under the policy
``fixed``, which asks candidates in every step. Run it on a machine that does nothing else: what
another process takes differs from run to run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
# Each run predicted from its own calls.
OWN = "own"
RECORD, MEASURED = "calls.jsonl", "measured.json"
TARGETS = Targets(ttft_ms=1000.0, tpot_ms=100.0)
# The record is flushed with a write, once a second.
FLUSH_S = 1.5


async def measure(
    client: AsyncClient, prompts: list[BenchPrompt], options: argparse.Namespace, record: Path
) -> None:
    """Note each run with its requests, and the bytes of the record that are its own."""
    settings = LoadSettings(options.max_tokens, 0.0, use_prefix_cache=False)
    found: list[dict[str, Any]] = []
    for concurrency in options.concurrency:
        requests = plan_requests(prompts, concurrency, 0)[: max(options.requests, concurrency)]
        for speculation in (True, False):
            start = record.stat().st_size
            run = await run_load(
                client, requests, settings, speculation=speculation, concurrency=concurrency
            )
            await asyncio.sleep(FLUSH_S)
            await warm_up(client, prompts[:1], 2)
            found.append(described(run) | {"bytes": [start, record.stat().st_size]})
            record.with_name(MEASURED).write_text(json.dumps(found))


async def warm_up(client: AsyncClient, prompts: list[BenchPrompt], max_tokens: int) -> None:
    requests = plan_requests(prompts, 1, 0)
    settings = LoadSettings(max_tokens, 0.0, use_prefix_cache=False)
    await run_load(client, requests, settings, speculation=False, concurrency=1)


def described(run: Run) -> dict[str, Any]:
    lengths = [[each.usage.prompt_tokens, len(each.token_ids)] for each in run.completions]
    return {
        "concurrency": run.concurrency,
        "speculation": run.speculation,
        "tokens_per_s": run.tokens_per_s,
        "acceptance_length": acceptance_length(run.completions),
        "lengths": lengths,
    }


async def measure_all(options: argparse.Namespace) -> None:
    """Leave the record and what was measured in the folder."""
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / RECORD
    record.write_bytes(b"")
    os.environ[VARIABLE] = str(record.absolute())
    prompts = load_prompts(options.prompts)
    config = ServicesConfig(model=options.model, policy=options.policy)
    async with embedded_services(config, Progress()) as address, AsyncClient(address) as client:
        await warm_up(client, prompts, 8)
        await measure(client, prompts, options, record)


def model_of(folder: Path, runs: Sequence[dict[str, Any]]) -> System:
    """From the calls of some runs."""
    whole = (folder / RECORD).read_bytes()
    lines = list(kinds_of(whole, ("verifier", "candidates")))
    for run in runs:
        start, end = run["bytes"]
        lines += kinds_of(whole[start:end], ("step", "propose"))
    part = folder / "part.jsonl"
    part.write_bytes(b"\n".join(lines) + b"\n")
    return read_record(part)


def kinds_of(part: bytes, kinds: tuple[str, ...]) -> Iterator[bytes]:
    """The lines of these kinds that the part has from end to end."""
    starts = tuple(f'{{"kind":"{kind}"'.encode() for kind in kinds)
    for line in part.splitlines():
        if line.startswith(starts) and line.endswith(b"}"):
            yield line


def predict(system: System, run: dict[str, Any], policy: str, seed: int) -> dict[str, Any]:
    """The report of the same requests, simulated."""
    arrivals = [Arrival(prompt, max(output, 1)) for prompt, output in run["lengths"]]
    name = policy if run["speculation"] else "off"
    config = SchedulerConfig(
        verifier=addresses(1), candidates=addresses(1, "candidates"), policy=name
    )
    experiment = Experiment(system, (1.0,), config, seed)
    return report(experiment.run(sending(arrivals, run["concurrency"]), 1.0), TARGETS)


def sending(arrivals: list[Arrival], concurrency: int) -> Load:
    async def load(scheduler: Scheduler) -> list[Outcome]:
        return await run_closed(scheduler, arrivals, concurrency, Prefixes())

    return load


def table(runs: Sequence[dict[str, Any]], models: Sequence[System], policy: str, seed: int) -> str:
    """A row for each run, predicted by the model of the same place."""
    lines = [
        "| in flight | speculation | measured tokens/s | predicted | ratio "
        "| measured tokens a pass | predicted |",
        "|---|---|---|---|---|---|---|",
    ]
    for run, system in zip(runs, models, strict=True):
        found = predict(system, run, policy, seed)
        lines.append(
            f"| {run['concurrency']} | {'on' if run['speculation'] else 'off'} "
            f"| {run['tokens_per_s']:.1f} | {found['tokens_per_s']:.1f} "
            f"| {found['tokens_per_s'] / run['tokens_per_s']:.2f} "
            f"| {run['acceptance_length']:.2f} | {found['acceptance_length']:.2f} |"
        )
    return "\n".join(lines)


def models_of(
    folder: Path, runs: Sequence[dict[str, Any]], levels: Sequence[int] | None
) -> list[System]:
    """One model for all runs, from those at some concurrencies; or each run's own."""
    if levels is None:
        return [model_of(folder, [run]) for run in runs]
    model = model_of(folder, [run for run in runs if run["concurrency"] in levels])
    return [model] * len(runs)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def levels(text: str) -> list[int] | None:
    return None if text == OWN else numbers(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Predicted and measured tokens a second.")
    parser.add_argument("--prompts", type=Path, help="as for dspark bench")
    parser.add_argument("--out", type=Path, help="folder for what is measured")
    parser.add_argument("--measured", type=Path, help="folder of an earlier measurement")
    parser.add_argument("--concurrency", type=numbers, default=[1, 8, 32])
    parser.add_argument(
        "--record-at", type=levels, action="append", help="such as 8; 1,8,32; or own"
    )
    parser.add_argument("--record", type=Path, help="take the model from this record instead")
    parser.add_argument("--requests", type=int, default=40, help="most requests of a run")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--policy", default=SchedulerConfig.policy)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.measured is None:
        if options.prompts is None or options.out is None:
            parser.error("--prompts and --out, or --measured, must be given")
        asyncio.run(measure_all(options))
    folder = options.measured or options.out
    runs = json.loads((folder / MEASURED).read_text())
    for given in options.record_at or [[8], [1, 8, 32], None]:
        if options.record is not None:
            name, models = str(options.record), [read_record(options.record)] * len(runs)
        else:
            name = f"record at {OWN if given is None else given}"
            models = models_of(folder, runs, given)
        print(f"\n{name}\n\n{table(runs, models, options.policy, options.seed)}")


if __name__ == "__main__":
    main()
