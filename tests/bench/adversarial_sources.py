"""What sources that do harm cost: always wrong and sure of it, random, slow.

    python tests/bench/adversarial_sources.py --prompts PROMPTS.json --concurrency 1,8

Each runs as the only source of services of their own, under the server's default policy. Requests
with and without speculation take turns. Prints tokens a second with each source as a share of those
without speculation, by repeat. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from policies import OWN, tokens_per_s  # noqa: E402

from dspark.cli.benchmark.plan import BenchPrompt, load_prompts  # noqa: E402
from dspark.cli.embedded import embedded_services  # noqa: E402
from dspark.cli.models.known import DEFAULT_MODEL  # noqa: E402
from dspark.cli.progress import Progress  # noqa: E402
from dspark.cli.services_config import ServicesConfig  # noqa: E402
from dspark.cli.supervision import running  # noqa: E402
from dspark.client import AsyncClient  # noqa: E402
from harness.adversarial_candidates import ADVERSARIES  # noqa: E402


def use_adversary(kind: str) -> None:
    """Services that are started from now on have this source."""
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ |= {"ADVERSARY": kind, "PYTHONPATH": os.pathsep.join(paths)}
    specs_of = running.service_specs

    def with_adversary(*arguments: Any) -> Any:
        return [
            replace(spec, module="harness.adversarial_candidates")
            if spec.name == "candidates"
            else spec
            for spec in specs_of(*arguments)
        ]

    running.service_specs = with_adversary


async def ratios(
    prompts: list[BenchPrompt], concurrency: int, client: AsyncClient, options: argparse.Namespace
) -> list[float]:
    found = []
    for repeat in range(options.repeats):
        order = ("off", OWN) if repeat % 2 else (OWN, "off")
        speeds = {
            name: await tokens_per_s(client, prompts, name, concurrency, options) for name in order
        }
        found.append(speeds[OWN] / speeds["off"])
    return found


async def run(options: argparse.Namespace) -> None:
    prompts = load_prompts(options.prompts)
    print("| source | in flight | of the speed without speculation |\n|---|---|---|")
    for kind in ADVERSARIES:
        use_adversary(kind)
        config = ServicesConfig(model=options.model)
        async with embedded_services(config, Progress()) as address, AsyncClient(address) as client:
            await tokens_per_s(client, prompts, OWN, 1, options)
            for concurrency in options.concurrency:
                found = await ratios(prompts, concurrency, client, options)
                each = ", ".join(f"{ratio:.3f}" for ratio in found)
                print(f"| {kind} | {concurrency} | {statistics.median(found):.3f} ({each}) |")


def main() -> None:
    parser = argparse.ArgumentParser(description="What sources that do harm cost.")
    parser.add_argument("--prompts", type=Path, required=True, help="as for dspark bench")
    parser.add_argument(
        "--concurrency", type=lambda text: [int(each) for each in text.split(",")], default=[1, 8]
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    options = parser.parse_args()
    options.sampled, options.temperature = (), 0.0
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
