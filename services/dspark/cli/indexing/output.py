"""Where a corpus goes: a file that is replaced whole, or Redis."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from redis import Redis
from redis.exceptions import RedisError

from dspark.candidates.sources.corpus_file import write_corpus
from dspark.candidates.sources.corpus_index import Entry
from dspark.candidates.sources.corpus_info import CorpusInfo
from dspark.candidates.sources.redis_corpus import publish
from dspark.cli.failure import CliError

_USAGE = 2
_CONNECT_TIMEOUT_S = 5.0
_TIMEOUT_S = 60.0


class CorpusOutput(Protocol):
    """A context manager that is sure, once entered, that a corpus can be written."""

    place: str
    """Where the corpus goes, for people."""

    def __enter__(self) -> CorpusOutput: ...

    def __exit__(self, *_: object) -> None: ...

    def write(self, info: CorpusInfo, entries: Iterable[Entry]) -> int:
        """Put it there; returns its bytes. Raises CliError, and then nothing has changed."""
        ...


class FileOutput(CorpusOutput):
    """A file, written beside its place first."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._file: BinaryIO

    def __enter__(self) -> FileOutput:
        with self._problems():
            if self._path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._file = self._part.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._part.unlink(missing_ok=True)
        with self._problems():
            self._file.close()

    def write(self, info: CorpusInfo, entries: Iterable[Entry]) -> int:
        with self._problems():
            num_bytes = write_corpus(self._file, info, entries)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._part.replace(self._path)
        return num_bytes

    @contextmanager
    def _problems(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CliError(f"--out {self._path}: {error.strerror}", _USAGE) from error


class RedisOutput(CorpusOutput):
    """A hash in Redis."""

    place = "Redis"

    def __init__(self, url: str, key: bytes) -> None:
        self._key = key
        try:
            self._client = Redis.from_url(
                url, socket_connect_timeout=_CONNECT_TIMEOUT_S, socket_timeout=_TIMEOUT_S
            )
        except ValueError as error:
            raise CliError(f"--redis-url: {error}", _USAGE) from error

    def __enter__(self) -> RedisOutput:
        with self._problems():
            self._client.ping()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def write(self, info: CorpusInfo, entries: Iterable[Entry]) -> int:
        with self._problems():
            return publish(self._client, self._key, info, entries)

    @contextmanager
    def _problems(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, OSError) as error:
            raise CliError(f"--redis-url: {error}", _USAGE) from error
