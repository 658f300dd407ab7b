"""What an evaluation reads: texts and prompts, checked before a model is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dspark.cli.benchmark.plan import BenchPrompt, load_prompts
from dspark.cli.failure import CliError
from dspark.cli.text_input import checked, read_text

_USAGE = 2


@dataclass(frozen=True, slots=True)
class EvalText:
    """A text and the file it came from."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class EvalInputs:
    """Texts and prompts, of which there is at least one."""

    texts: Sequence[EvalText]
    prompts: Sequence[BenchPrompt]
    prompts_path: Path | None


def read_inputs(texts: Sequence[Path], prompts: Path | None) -> EvalInputs:
    """Read the files; raises CliError that names the one that is wrong."""
    if not texts and prompts is None:
        raise CliError("give --text FILE, --prompts FILE.json, or both", _USAGE)
    return EvalInputs(
        texts=[EvalText(path, _read_text(path)) for path in texts],
        prompts=_read_prompts(prompts) if prompts is not None else [],
        prompts_path=prompts,
    )


def _read_text(path: Path) -> str:
    text = read_text(path, f"--text {path}")
    if not text:
        raise CliError(f"--text {path}: is empty", _USAGE)
    return text


def _read_prompts(path: Path) -> list[BenchPrompt]:
    prompts = load_prompts(path)
    for index, prompt in enumerate(prompts):
        checked(prompt.prompt, f"--prompts {path}: entry {index}")
    return prompts
