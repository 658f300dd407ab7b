"""How soon predicted acceptance is right again after the traffic has changed its kind.

    python tests/bench/traffic_change.py --prompts PROMPTS.json --out FOLDER

Three phases of ``--requests`` each run one after another against the same services: prompts of the
kinds ``--first``, then those of ``--then``, then those again, answered at ``--temperature``. Prints
the expected calibration error of each source in every phase, in per cent, of the last third of a
phase, since what comes before is for learning; the number of nodes that it is of; and the error
that predictions without any fault would show with so many nodes, by chance. FOLDER keeps the
decision log; with it already there nothing is run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dspark.cli.benchmark.plan import BenchPrompt, load_prompts
from dspark.cli.embedded import embedded_services
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient
from dspark.scheduler.calibration_error import CalibrationError
from dspark.scheduler.decision_log import LoggedStep
from dspark.scheduler.logged_calibration import calibration_errors, predictions

LOG = "decisions.jsonl"
FLUSH_S = 1.5


async def run_phase(
    client: AsyncClient,
    name: str,
    prompts: list[BenchPrompt],
    temperature: float,
    options: argparse.Namespace,
) -> None:
    waiting = iter(range(options.requests))

    async def slot() -> None:
        for index in waiting:
            await client.generate(
                prompts[index % len(prompts)].prompt,
                request_id=f"{name}-{index}",
                max_tokens=options.max_tokens,
                temperature=temperature,
                seed=index,
            )

    await asyncio.gather(*(slot() for _ in range(options.concurrency)))


async def measure(options: argparse.Namespace, log: Path) -> None:
    prompts = load_prompts(options.prompts)
    first, then = (
        [prompt for prompt in prompts if prompt.kind in kinds]
        for kinds in (options.first, options.then)
    )
    config = ServicesConfig(model=options.model, policy=options.policy, decision_log=str(log))
    async with (
        embedded_services(config, Progress()) as address,
        AsyncClient(address) as client,
    ):
        await run_phase(client, "first", first, 0.0, options)
        await run_phase(client, "then", then, 0.0, options)
        await run_phase(client, "sampled", then, options.temperature, options)
        await asyncio.sleep(FLUSH_S)


def late_offers(steps: list[LoggedStep], phase: str, num_requests: int) -> Iterator[LoggedStep]:
    """Steps with the offers to the last third of a phase's requests alone."""
    for step in steps:
        offers = tuple(
            offer
            for offer in step.offers
            if offer.request_id.startswith(f"{phase}-")
            and int(offer.request_id.rpartition("-")[2]) >= num_requests * 2 // 3
        )
        if offers:
            yield replace(step, offers=offers)


def error_by_chance(predicted: list[float], num_draws: int = 200) -> float:
    """The mean error of so many draws in which each prediction is true."""
    dice, total = random.Random(0), 0.0
    for _ in range(num_draws):
        error = CalibrationError()
        for chance in predicted:
            error.add(chance, dice.random() < chance)
        total += error.value
    return total / num_draws


def report(log: Path, num_requests: int) -> str:
    steps = [LoggedStep.from_json(line) for line in log.read_text().splitlines()]
    lines = ["| phase | source | error, % | nodes | by chance, % |", "|---|---|---|---|---|"]
    for phase in ("first", "then", "sampled"):
        late = list(late_offers(steps, phase, num_requests))
        predicted: dict[str, list[float]] = defaultdict(list)
        for prediction in predictions(late):
            predicted[prediction.source].append(prediction.predicted)
        for source, error in calibration_errors(late).items():
            chance = 100 * error_by_chance(predicted[source])
            count = len(predicted[source])
            lines.append(f"| {phase} | {source} | {100 * error:.1f} | {count} | {chance:.1f} |")
    return "\n".join(lines)


def kinds(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=kinds, required=True, help="such as code,json")
    parser.add_argument("--then", type=kinds, required=True, help="such as story,chat")
    parser.add_argument("--policy", default="economic")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--temperature", type=float, default=1.0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / LOG
    if not log.exists():
        asyncio.run(measure(options, log))
    print(report(log, options.requests))


if __name__ == "__main__":
    main()
