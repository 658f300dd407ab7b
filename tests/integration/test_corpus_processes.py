"""Corpora as people make and use them: the index command, and candidates as processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import DraftRequest
from dspark.candidates.sources.lookup_source import LookupSource
from dspark.candidates.sources.redis_lookups import RedisLookups
from dspark.cli.__main__ import run
from harness.byte_tokenizer import byte_tokenizer, write_model_dir
from harness.fault_redis import RedisServer
from harness.waiting import until

PATIENCE_S = 30.0
TIMEOUT_S = 120.0
VOCAB_SIZE = 258
needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = write_model_dir(tmp_path / "tiny", byte_tokenizer())
    (directory / "model.safetensors").touch()
    (directory / "config.json").write_text(json.dumps({"vocab_size": VOCAB_SIZE}))
    return directory


@needs_redis
async def test_what_index_puts_into_redis_serves_a_model_of_the_same_name(
    server: RedisServer, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("for each in range(10):")
    flags = ["--name", "python", "--model", str(model), "--redis-url", server.url]
    assert run(["index", str(tmp_path / "text.txt"), *flags]) == 0
    assert "corpus:python: 1 files, 22 tokens, 7" in capsys.readouterr().out
    config = CandidatesConfig(
        sources=("corpus:python",),
        redis_url=server.url,
        redis_deadline_ms=10_000,
        model_id="tiny",
        vocab_size=VOCAB_SIZE,
    )
    (source,) = build_sources(config)
    assert isinstance(source, LookupSource)
    store = source.store
    assert isinstance(store, RedisLookups)
    await source.start()
    await until(lambda: not store.is_degraded, PATIENCE_S)
    live = LiveSequence("r", 0, "", 1, list(b"if in range"))
    trees = source.propose([DraftRequest(live, 9, 9)], 0.0)
    (tree,) = trees if isinstance(trees, Sequence) else await trees
    assert bytes(tree.token_ids) == b"(10):"
    await source.close()


@needs_redis
def test_candidates_end_where_redis_lacks_the_corpus(server: RedisServer, tmp_path: Path) -> None:
    line = ended(tmp_path, "--sources", "suffix,corpus:go", "--redis-url", server.url)
    assert "sources: corpus:go is in no file and not in Redis" in line


def test_candidates_end_where_a_file_is_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"text")
    line = ended(tmp_path, "--sources", "corpus:go", "--corpus", f"go={tmp_path}/f")
    assert f"{tmp_path}/f: is no corpus" in line


def ended(folder: Path, *flags: str) -> str:
    """The last line of a candidates process that ends by itself, as for a bad setting."""
    command = [sys.executable, "-m", "dspark.candidates", "--listen", f"unix:{folder}/s", *flags]
    process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    return process.stderr.splitlines()[-1]
