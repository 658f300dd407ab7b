"""What each candidate source brings alone, in pairs and with all others, in the running system.

    python tests/bench/source_mixes.py --prompts PROMPTS.json --sources recycle,suffix,ngram --pairs

One set of services runs all sources; each request names those of its mix. The prompts are taken one
after the other, each by every mix and without speculation in a turning order, so that what the
machine does meanwhile hits all alike. Caches are kept apart between mixes, and carry over between
the prompts of a mix. Prints a Markdown table: acceptance length, tokens a second, their ratio to
decoding without speculation, milliseconds that a step waits for candidates, and whether all mixes
gave the same tokens. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from dspark.cli.benchmark.aggregate import acceptance_length, step_medians
from dspark.cli.benchmark.plan import BenchPrompt, load_prompts
from dspark.cli.embedded import embedded_services
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient, Completion
from dspark.sampling import SpeculationParams

Mix = tuple[str, ...]
PLAIN: Mix = ()


@dataclass
class Outcome:
    """What one mix did; ``seconds`` is the time of all its requests."""

    completions: list[Completion] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        return sum(len(each.token_ids) for each in self.completions) / self.seconds


def mixes_of(sources: Mix, *, pairs: bool, more: list[str]) -> list[Mix]:
    """Without, each alone, the pairs, those that are named, and all."""
    found: list[Mix] = [PLAIN, *((source,) for source in sources)]
    if pairs:
        found += combinations(sources, 2)
    found += [tuple(each.split(",")) for each in more]
    return list(dict.fromkeys([*found, sources]))


async def measure(
    client: AsyncClient,
    prompts: list[BenchPrompt],
    mixes: list[Mix],
    max_tokens: int,
    temperature: float,
) -> tuple[dict[Mix, Outcome], int]:
    """The outcomes, and how many answers differ from the one without speculation."""
    outcomes: dict[Mix, Outcome] = defaultdict(Outcome)
    salt, different = uuid.uuid4().hex, 0
    for index, prompt in enumerate(prompts):
        start = index % len(mixes)
        answers: dict[Mix, tuple[int, ...]] = {}
        for mix in mixes[start:] + mixes[:start]:
            began = time.perf_counter()
            completion = await client.generate(
                prompt.prompt,
                max_tokens=max_tokens,
                temperature=temperature,
                seed=index,
                speculation=SpeculationParams(enabled=bool(mix), sources=mix),
                use_prefix_cache=False,
                cache_salt=f"{salt}-{'+'.join(mix)}",
            )
            outcome = outcomes[mix]
            outcome.seconds += time.perf_counter() - began
            outcome.completions.append(completion)
            answers[mix] = tuple(completion.token_ids)
        different += sum(answer != answers[PLAIN] for answer in answers.values())
    return outcomes, different


def table(outcomes: dict[Mix, Outcome], mixes: list[Mix]) -> str:
    lines = [
        "| sources | acceptance length | tokens/s | ratio | ms waited a step |",
        "|---|---|---|---|---|",
    ]
    plain = outcomes[PLAIN].tokens_per_s
    for mix in mixes:
        done = outcomes[mix]
        speed, waited = done.tokens_per_s, step_medians(done.completions)["propose"]
        lines.append(
            f"| {' + '.join(mix) or 'none'} | {acceptance_length(done.completions):.2f} "
            f"| {speed:.1f} | {speed / plain:.2f} | {waited:.1f} |"
        )
    return "\n".join(lines)


async def run(options: argparse.Namespace) -> None:
    mixes = mixes_of(options.sources, pairs=options.pairs, more=options.mix)
    prompts = load_prompts(options.prompts)
    config = ServicesConfig(
        model=options.model,
        sources=options.sources,
        policy=options.policy,
        num_draft_tokens=options.num_draft_tokens,
        block_weights=options.block_weights,
        draft_model=options.draft_model,
        ngram_table=options.ngram_table,
        medusa_weights=options.medusa_weights,
        weight_dtype=options.weight_dtype,
    )
    sizes = options.max_tokens, options.temperature
    async with embedded_services(config, Progress()) as address, AsyncClient(address) as client:
        await measure(client, prompts[:1], mixes, *sizes)
        outcomes, different = await measure(client, prompts, mixes, *sizes)
    print(table(outcomes, mixes))
    print(f"\n{len(prompts)} prompts, {len(mixes)} mixes, {different} answers differ")


def main() -> None:
    parser = argparse.ArgumentParser(description="What each candidate source brings.")
    parser.add_argument("--prompts", type=Path, required=True, help="as for dspark bench")
    parser.add_argument(
        "--sources", type=lambda text: tuple(text.split(",")), required=True, help="all to run"
    )
    parser.add_argument("--pairs", action="store_true", help="measure every pair, too")
    parser.add_argument("--mix", action="append", default=[], help="a mix to measure, too")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--policy")
    parser.add_argument("--num-draft-tokens", type=int)
    parser.add_argument("--weight-dtype")
    for weights in ("--ngram-table", "--medusa-weights", "--block-weights", "--draft-model"):
        parser.add_argument(weights, help="as for dspark serve")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
