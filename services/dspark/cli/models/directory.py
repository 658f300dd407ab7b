"""Checks that a directory has what the services read, and mends what can be mended."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.cache import building, entry_path
from dspark.cli.models.converter import run_converter
from dspark.cli.progress import Progress

_INDEX = "model.safetensors.index.json"
_CONVERTIBLE = (("tokenizer.model",), ("vocab.json", "merges.txt"))


def missing_parts(directory: Path) -> list[str]:
    """What a model directory lacks, in words; empty means it is complete."""
    missing = []
    if not (directory / "config.json").is_file():
        missing.append("config.json")
    missing += _missing_weights(directory)
    if not (directory / "tokenizer.json").is_file():
        missing.append("tokenizer.json")
    return missing


def complete_directory(directory: Path, progress: Progress) -> Path:
    """The directory, or a copy made of links with a converted tokenizer; raises CliError."""
    missing = missing_parts(directory)
    if missing == ["tokenizer.json"] and _is_convertible(directory):
        return _with_converted_tokenizer(directory, progress)
    if missing:
        raise CliError(f"{directory} is no complete model: {', '.join(missing)} is missing")
    return directory


def _missing_weights(directory: Path) -> list[str]:
    index = directory / _INDEX
    if not index.is_file():
        return [] if any(directory.glob("*.safetensors")) else ["a *.safetensors file"]
    try:
        shards = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CliError(f"{index} is not a weight index: {error!r}") from error
    return [shard for shard in shards if not (directory / shard).is_file()]


def _is_convertible(directory: Path) -> bool:
    return any(all((directory / name).is_file() for name in names) for names in _CONVERTIBLE)


def _with_converted_tokenizer(directory: Path, progress: Progress) -> Path:
    source = directory.resolve()
    entry = entry_path(source.name, hashlib.sha256(_identity(source).encode()).hexdigest())
    with building(entry) as workspace:
        if workspace is not None:
            with progress.part("preparing the tokenizer") as part:
                run_converter("dspark.cli.models.convert_tokenizer", source, workspace, part)
            for path in source.iterdir():
                if not (workspace / path.name).exists():
                    (workspace / path.name).symlink_to(path)
    return entry


def _identity(source: Path) -> str:
    stats = [(path.name, path.stat()) for path in sorted(source.iterdir())]
    return repr([str(source), *((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)])
