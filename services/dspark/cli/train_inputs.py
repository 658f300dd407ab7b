"""What ``dspark train`` reads and writes, checked before a model is fetched or loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.errors import InvalidArgument
from dspark.training.overlap import reserved_texts
from dspark.training.prompt_files import read_prompts
from dspark.training.prompt_layout import PromptLayout

_USAGE = 2
_ANY_LENGTH = 1 << 60


def check_inputs(
    data: Sequence[Path],
    exclude: Sequence[Path],
    prompt_templates: Sequence[str],
    start_from: str | None,
    out: Path,
) -> None:
    """Raises CliError that names the flag and the file, with the line where there is one.

    ``out`` is made, to be sure that it can be written to.
    """
    for template in prompt_templates:
        try:
            PromptLayout.of(template)
        except InvalidArgument as error:
            raise CliError(f"--prompt-template {template!r} {error.problem}", _USAGE) from error
    for path in data:
        _check("--data", path, _has_prompts)
    for path in exclude:
        _check("--exclude", path, reserved_texts)
    if start_from and not Path(start_from).exists():
        raise CliError(f"--start-from {start_from}: no such file or directory", _USAGE)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"--out {out}: {error.strerror}", _USAGE) from error


def _check(flag: str, path: Path, read: Callable[[Path], object]) -> None:
    try:
        read(path)
    except OSError as error:
        raise CliError(f"{flag} {path}: {error.strerror}", _USAGE) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{flag} {path}: is not UTF-8 text", _USAGE) from error
    except ValueError as error:
        where = "" if str(error).startswith(str(path)) else f"{path}: "
        raise CliError(f"{flag} {where}{error}", _USAGE) from error


def _has_prompts(path: Path) -> None:
    """Raises ValueError for a file without any; there are at most as many tokens as bytes."""
    prompts = read_prompts(path, [PromptLayout("", "")], str.encode, _ANY_LENGTH)
    if not list(prompts):
        raise ValueError("has no prompt, and is too short for a text to go on with")
