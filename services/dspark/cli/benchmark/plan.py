"""What a benchmark sends: prompts, and the requests of each run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.text_input import read_text

# Enough requests that the start and the end of a run, when fewer are in flight, weigh little.
_REQUESTS_PER_SLOT = 4
_USAGE = 2


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A prompt as raw text; ``kind`` names what sort of text it asks for."""

    kind: str
    prompt: str


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """One request of a run. Passes over the prompts are numbered by ``lap``.

    Equal (prompt, lap, seed) in two runs must give equal tokens. Shared caches are separated by
    lap, so that no request finds what an earlier answer to the same prompt left there.
    """

    prompt: BenchPrompt
    lap: int
    seed: int


def load_prompts(path: Path) -> list[BenchPrompt]:
    """Read a list of {"kind", "user", "prompt"}; raises CliError that names what is wrong."""
    try:
        entries = json.loads(read_text(path, f"--prompts {path}"))
    except (ValueError, RecursionError) as error:
        raise CliError(f"--prompts {path}: {error}", _USAGE) from error
    if not isinstance(entries, list) or not entries:
        raise CliError(f"--prompts {path}: must be a list with at least one prompt", _USAGE)
    return [_prompt(path, index, entry) for index, entry in enumerate(entries)]


def plan_requests(prompts: list[BenchPrompt], concurrency: int, seed: int) -> list[BenchRequest]:
    """Whole laps over the prompts: one at concurrency 1, more as more requests run at a time."""
    wanted = _REQUESTS_PER_SLOT * concurrency if concurrency > 1 else 1
    laps = math.ceil(wanted / len(prompts))
    return [
        BenchRequest(prompt, lap, seed + lap * len(prompts) + index)
        for lap in range(laps)
        for index, prompt in enumerate(prompts)
    ]


def _prompt(path: Path, index: int, entry: object) -> BenchPrompt:
    text = entry.get("prompt") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(text, str):
        raise CliError(f'--prompts {path}: entry {index} has no text "prompt"', _USAGE)
    return BenchPrompt(str(entry.get("kind", "")), text)
