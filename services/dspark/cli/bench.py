"""``dspark bench``: speed with and without speculation, and whether the tokens agree."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from dspark.cli.benchmark.aggregate import Comparison, Run, compare, median_run, report
from dspark.cli.benchmark.load import LoadSettings, run_load
from dspark.cli.benchmark.plan import BenchPrompt, load_prompts, plan_requests
from dspark.cli.benchmark.table import results_table, sources_table
from dspark.cli.client_access import files_of
from dspark.cli.connection import add_connection_arguments, serving_target
from dspark.cli.json_output import check_writable, write_json
from dspark.cli.number_flags import count, counts, number_from_0
from dspark.cli.progress import Progress
from dspark.client import AsyncClient

NAME = "bench"
HELP = "measure speed with and without speculation, and compare the tokens"
_WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """What to measure."""

    prompts: list[BenchPrompt]
    load: LoadSettings
    concurrency: tuple[int, ...]
    speculation: tuple[bool, ...]
    seed: int
    repeats: int


def add_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompts", type=Path, required=True, help='JSON list of {"kind", "user", "prompt"}'
    )
    parser.add_argument(
        "--max-tokens",
        type=count,
        default=128,
        help="tokens of a request (default %(default)s)",
    )
    parser.add_argument(
        "--concurrency",
        type=counts,
        default=(1, 8),
        help="requests in flight, of each run (default 1,8)",
    )
    parser.add_argument(
        "--speculation",
        type=_switches,
        default=(True, False),
        help="on, off or on,off (default on,off)",
    )
    parser.add_argument(
        "--temperature",
        type=number_from_0,
        default=0.0,
        help="temperature of sampling; 0 (the default) is greedy",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the first prompt (default %(default)s)"
    )
    parser.add_argument(
        "--repeats",
        type=count,
        default=1,
        help="runs of which the median is reported (default %(default)s)",
    )
    parser.add_argument("--prefix-cache", action="store_true", help="reuse cached prompt blocks")
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write the results there; default: nowhere"
    )
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    config = BenchConfig(
        prompts=load_prompts(arguments.prompts),
        load=LoadSettings(
            arguments.max_tokens, arguments.temperature, use_prefix_cache=arguments.prefix_cache
        ),
        concurrency=arguments.concurrency,
        speculation=arguments.speculation,
        seed=arguments.seed,
        repeats=arguments.repeats,
    )
    if arguments.json:
        check_writable(arguments.json)
    results = asyncio.run(_measure(arguments, config))
    if arguments.json:
        write_json(arguments.json, results)
    _show(results)
    return 0 if results["identical"] else 1


async def _measure(arguments: argparse.Namespace, config: BenchConfig) -> dict[str, Any]:
    progress = Progress()
    async with (
        serving_target(arguments, progress) as target,
        AsyncClient(target, tls=files_of(arguments)) as client,
    ):
        with progress.part("running the load once, unmeasured"):
            await _warm_up(client, config)
        runs: list[Run] = []
        comparison = Comparison()
        for repeat in range(config.repeats):
            for concurrency in config.concurrency:
                pair = await _run_pair(client, config, concurrency, repeat, progress)
                runs += pair
                if len(pair) == 2:
                    comparison += compare(*pair)
        return results_of(runs, comparison, config)


def results_of(runs: list[Run], comparison: Comparison, config: BenchConfig) -> dict[str, Any]:
    """The JSON output: the median run for each concurrency and speculation setting."""
    chosen = [
        median_run([r for r in runs if (r.concurrency, r.speculation) == (concurrency, switch)])
        for concurrency in config.concurrency
        for switch in config.speculation
    ]
    return {
        "runs": [report(each) for each in chosen],
        "identical": comparison.different == 0,
        "compared_requests": comparison.compared,
    }


async def _run_pair(
    client: AsyncClient, config: BenchConfig, concurrency: int, repeat: int, progress: Progress
) -> list[Run]:
    """The runs at one concurrency; every other repeat swaps their order, so that drift cancels."""
    requests = plan_requests(config.prompts, concurrency, config.seed)
    order = config.speculation if repeat % 2 == 0 else config.speculation[::-1]
    runs = []
    for switch in order:
        title = f"speculation {'on' if switch else 'off'}, {concurrency} in flight"
        with progress.part(title):
            one = await run_load(
                client, requests, config.load, speculation=switch, concurrency=concurrency
            )
        runs.append(one)
    return runs


async def _warm_up(client: AsyncClient, config: BenchConfig) -> None:
    most = max(config.concurrency)
    requests = plan_requests(config.prompts, 1, config.seed)[:most]
    short = LoadSettings(_WARM_UP_TOKENS, config.load.temperature, use_prefix_cache=False)
    for switch in config.speculation:
        await run_load(client, requests, short, speculation=switch, concurrency=most)


def _show(results: dict[str, Any]) -> None:
    console = Console(soft_wrap=False)
    console.print(results_table(results["runs"]))
    if any(each["sources"] for each in results["runs"]):
        console.print(sources_table(results["runs"]))
    verdict = "identical" if results["identical"] else "NOT identical"
    console.print(f"{results['compared_requests']} requests compared on and off: {verdict}")


def _switches(text: str) -> tuple[bool, ...]:
    words = {"on": True, "off": False}
    parts = [part.strip() for part in text.split(",")]
    if any(part not in words for part in parts):
        raise argparse.ArgumentTypeError("must be on, off or on,off")
    return tuple(dict.fromkeys(words[part] for part in parts))
