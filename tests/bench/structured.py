"""Structured output with speculation on against off: tokens a second over random JSON Schemas.

    python tests/bench/structured.py --concurrency 1,4 --count 24

One set of services runs all. Both variants answer the same requests with the same seeds, so the
tokens are the same, which is checked; they take turns, in another order in each repeat. Half of the
requests are greedy, the others sampled. Prints a Markdown table of tokens a second, medians over
the repeats, the ratio, and what share of the tokens came from candidates and from the grammar
itself. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from dspark.cli.embedded import embedded_services
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient, Completion, StructuredOutput

sys.path.insert(0, str(Path(__file__).parents[1]))
from harness.random_schemas import random_schema

VARIANTS = {"off": False, "on": True}
GRAMMAR = "grammar"


@dataclass
class Run:
    """One pass of one variant over all schemas."""

    tokens_per_s: float
    completions: list[Completion] = field(default_factory=list)

    def share(self, source: str | None = None) -> float:
        """The part of the tokens that was accepted, of one source or of all."""
        tokens = sum(len(c.token_ids) for c in self.completions)
        stats = [c.speculation for c in self.completions]
        if source is None:
            return sum(s.accepted for s in stats) / tokens
        return sum(s.sources[source].accepted for s in stats if source in s.sources) / tokens


async def run_once(
    client: AsyncClient, variant: str, concurrency: int, options: argparse.Namespace
) -> Run:
    done: dict[int, Completion] = {}
    waiting = list(range(options.count))[::-1]

    async def slot() -> None:
        while waiting:
            seed = waiting.pop()
            schema = random_schema(seed)
            done[seed] = await client.generate(
                [{"role": "user", "content": f"Give an example of {json.dumps(schema)}"}],
                structured=StructuredOutput.json_schema(schema),
                max_tokens=options.max_tokens,
                temperature=options.temperature if seed % 2 else 0.0,
                seed=seed,
                speculation=VARIANTS[variant],
            )

    began = time.perf_counter()
    await asyncio.gather(*(slot() for _ in range(concurrency)))
    took_s = time.perf_counter() - began
    completions = [done[seed] for seed in range(options.count)]
    return Run(sum(len(c.token_ids) for c in completions) / took_s, completions)


def check_same(runs: dict[str, list[Run]]) -> None:
    """Exits if speculation changed a token."""
    first, *others = (run for each in runs.values() for run in each)
    expected = [c.token_ids for c in first.completions]
    if any([c.token_ids for c in run.completions] != expected for run in others):
        sys.exit("speculation changed a token")


def line(concurrency: int, runs: dict[str, list[Run]]) -> str:
    off, on = ([run.tokens_per_s for run in runs[name]] for name in ("off", "on"))
    ratios = [fast / slow for fast, slow in zip(on, off, strict=True)]
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    last = runs["on"][-1]
    return (
        f"| {concurrency} | {statistics.median(off):.1f} | {statistics.median(on):.1f} "
        f"| {statistics.median(ratios):.2f} ({shown}) "
        f"| {last.share():.0%} | {last.share(GRAMMAR):.0%} |"
    )


async def run(options: argparse.Namespace) -> None:
    config = ServicesConfig(model=options.model, sources=options.sources)
    lines = ["| in flight | off | on | on / off | accepted | by the grammar |", "|" + "---|" * 6]
    async with embedded_services(config, Progress()) as address, AsyncClient(address) as client:
        for name in VARIANTS:
            await run_once(client, name, 1, options)
        for concurrency in options.concurrency:
            runs: dict[str, list[Run]] = defaultdict(list)
            for repeat in range(options.repeats):
                for name in list(VARIANTS)[:: 1 if repeat % 2 else -1]:
                    runs[name].append(await run_once(client, name, concurrency, options))
            check_same(runs)
            lines.append(line(concurrency, runs))
    print("\n".join(lines))


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description="Structured output, speculation on and off.")
    parser.add_argument("--concurrency", type=_numbers, default=[1, 4])
    parser.add_argument("--count", type=int, default=24, help="schemas of a run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--temperature", type=float, default=0.8, help="of every other request")
    parser.add_argument(
        "--sources",
        type=lambda text: tuple(text.split(",")),
        default=(),
        help="as for dspark serve",
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
