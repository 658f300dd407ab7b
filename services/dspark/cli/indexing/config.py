"""Settings of ``dspark index``."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.models.known import DEFAULT_MODEL
from dspark.config import setting


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """Whose tokens a corpus holds, and where it goes if that is no file."""

    model: str = setting(
        DEFAULT_MODEL, "known name, directory, FILE.gguf or hub id (organisation/name)"
    )
    redis_url: str | None = setting(
        None, "put the corpus into this Redis, such as redis://host:6379/0; unset: --out"
    )
