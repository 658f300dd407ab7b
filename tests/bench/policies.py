"""Speculation policies against each other, at several numbers of requests in flight.

    python tests/bench/policies.py --prompts PROMPTS.json --concurrency 1,4,8,16,32
    python tests/bench/policies.py --prompts PROMPTS.json --concurrency 8 --sampled story,chat

One set of services runs all: each request names the policy of its variant. Variants take turns,
in another order in each repeat, so that what the machine does meanwhile hits all alike; caches are
kept apart between variants and repeats. ``--sampled`` names kinds of prompts that are answered at
``--temperature``, so that half of a mixed load can be hard to guess. Prints a Markdown table of
tokens a second, medians over the repeats, and how the server's own policy compares with the best of
the others in the same repeat. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections import defaultdict
from pathlib import Path

from dspark.cli.benchmark.plan import BenchPrompt, load_prompts
from dspark.cli.embedded import embedded_services
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient
from dspark.sampling import SpeculationParams

OWN = "economic"
FIXED = (1, 3, 7, 15)
VARIANTS: dict[str, SpeculationParams] = {
    "off": SpeculationParams(enabled=False),
    **{f"fixed {k}": SpeculationParams(policy="fixed", max_draft_tokens=k) for k in FIXED},
    "threshold": SpeculationParams(policy="threshold"),
    OWN: SpeculationParams(),
}
# Each request in flight is followed by others, so that the end of a run weighs little.
REQUESTS_PER_SLOT = 3
MIN_REQUESTS = 10


async def tokens_per_s(
    client: AsyncClient,
    prompts: list[BenchPrompt],
    variant: str,
    concurrency: int,
    options: argparse.Namespace,
) -> float:
    """One run of one variant."""
    count = max(MIN_REQUESTS, REQUESTS_PER_SLOT * concurrency)
    waiting = list(enumerate(prompts[index % len(prompts)] for index in range(count)))[::-1]
    salt, tokens = uuid.uuid4().hex, 0

    async def slot() -> None:
        nonlocal tokens
        while waiting:
            index, prompt = waiting.pop()
            completion = await client.generate(
                prompt.prompt,
                max_tokens=options.max_tokens,
                temperature=options.temperature if prompt.kind in options.sampled else 0.0,
                seed=index,
                speculation=VARIANTS[variant],
                use_prefix_cache=False,
                cache_salt=salt,
            )
            tokens += len(completion.token_ids)

    began = time.perf_counter()
    await asyncio.gather(*(slot() for _ in range(concurrency)))
    return tokens / (time.perf_counter() - began)


async def measure(
    client: AsyncClient, prompts: list[BenchPrompt], options: argparse.Namespace
) -> dict[int, dict[str, list[float]]]:
    """Tokens a second by concurrency and variant, one for each repeat."""
    speeds: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    names = [name for name in VARIANTS if name in options.variants]
    for concurrency in options.concurrency:
        for repeat in range(options.repeats):
            start = repeat * 3 % len(names)
            for variant in names[start:] + names[:start]:
                speed = await tokens_per_s(client, prompts, variant, concurrency, options)
                speeds[concurrency][variant].append(speed)
    return speeds


def table(speeds: dict[int, dict[str, list[float]]], variants: tuple[str, ...]) -> str:
    names = [name for name in VARIANTS if name in variants]
    lines = [
        f"| in flight | {' | '.join(names)} | {OWN} / best other |",
        "|" + "---|" * (len(names) + 2),
    ]
    for concurrency, by_variant in speeds.items():
        medians = [statistics.median(by_variant[name]) for name in names]
        others = zip(*(runs for name, runs in by_variant.items() if name != OWN), strict=True)
        ratios = [own / max(rest) for own, rest in zip(by_variant[OWN], others, strict=True)]
        best_other = max(statistics.median(r) for n, r in by_variant.items() if n != OWN)
        own = statistics.median(by_variant[OWN])
        lines.append(
            f"| {concurrency} | {' | '.join(f'{speed:.1f}' for speed in medians)} "
            f"| {own / best_other:.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)}) |"
        )
    return "\n".join(lines)


async def run(options: argparse.Namespace) -> None:
    prompts = load_prompts(options.prompts)
    if options.kinds:
        prompts = [prompt for prompt in prompts if prompt.kind in options.kinds]
    config = ServicesConfig(
        model=options.model,
        sources=options.sources,
        num_draft_tokens=max(FIXED),
        decision_log=options.decision_log,
    )
    async with embedded_services(config, Progress()) as address, AsyncClient(address) as client:
        for variant in options.variants:
            await tokens_per_s(client, prompts, variant, 1, options)
        speeds = await measure(client, prompts, options)
    print(table(speeds, options.variants))


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def main() -> None:
    parser = argparse.ArgumentParser(description="Speculation policies against each other.")
    parser.add_argument("--prompts", type=Path, required=True, help="as for dspark bench")
    parser.add_argument(
        "--concurrency", type=lambda text: [int(each) for each in text.split(",")], default=[1, 8]
    )
    parser.add_argument(
        "--variants", type=_names, default=tuple(VARIANTS), help=f"some of {', '.join(VARIANTS)}"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--kinds", type=_names, default=(), help="only prompts of these kinds")
    parser.add_argument("--sampled", type=_names, default=(), help="kinds answered by sampling")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the sampled kinds")
    parser.add_argument("--sources", type=_names, default=(), help="as for dspark serve")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--decision-log", help="as for dspark serve")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
