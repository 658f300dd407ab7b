from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from dspark.candidates.__main__ import main
from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import REGISTRY, build_sources
from dspark.candidates.sources.redis_store import RedisStore
from dspark.candidates.sources.retrieval import RetrievalSource
from dspark.candidates.sources.store import MemoryStore
from dspark.candidates.vocabulary import Vocabulary
from dspark.config import add_arguments, from_namespace, parse, to_arguments


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sources": ("suffix", "suffix")}, "sources"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"lease_s": 0.0}, "lease_s"),
        ({"redis_deadline_ms": -1.0}, "redis_deadline_ms"),
        ({"max_sequences": 0}, "max_sequences"),
    ],
)
def test_a_bad_setting_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        CandidatesConfig(**changes)


def test_the_command_line_makes_an_equal_config() -> None:
    config = CandidatesConfig(
        listen="unix:/x", sources=("suffix",), vocab_size=7, redis_url="redis://h:1/0", lease_s=3.5
    )
    assert parse(CandidatesConfig, "", to_arguments(config)) == config


def test_the_store_can_be_named_by_the_environment() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, CandidatesConfig)
    config = from_namespace(
        CandidatesConfig, parser.parse_args([]), {"DSPARK_REDIS_URL": "redis://h:1/0"}
    )
    assert config.redis_url == "redis://h:1/0"


def test_sources_are_built_in_the_order_of_the_config() -> None:
    names = ("suffix", "retrieval", "recycle")
    assert set(names) < set(REGISTRY)
    sources = build_sources(CandidatesConfig(sources=names))
    assert tuple(source.name for source in sources) == names


def test_an_unknown_source_is_named() -> None:
    with pytest.raises(ValueError, match="crystal-ball"):
        build_sources(CandidatesConfig(sources=("suffix", "crystal-ball")))


@pytest.mark.parametrize(
    ("redis_url", "store"), [(None, MemoryStore), ("redis://127.0.0.1:1/0", RedisStore)]
)
async def test_the_retrieval_store_goes_by_the_url(redis_url: str | None, store: type) -> None:
    (source,) = build_sources(CandidatesConfig(sources=("retrieval",), redis_url=redis_url))
    assert isinstance(source, RetrievalSource)
    assert isinstance(source.store, store)


def test_a_given_vocabulary_stays_and_an_unknown_one_grows() -> None:
    given, learned = Vocabulary(10), Vocabulary()
    for vocabulary in (given, learned):
        vocabulary.note([])
        vocabulary.note([3, 99, 4])
        vocabulary.note([5])
    assert (given.size, learned.size) == (10, 100)


@pytest.mark.parametrize(
    ("arguments", "variable", "message"),
    [
        (["--sources", "tea-leaves"], None, "tea-leaves"),
        (["--lease-s", "0"], None, "--lease-s"),
        ([], ("DSPARK_VOCAB_SIZE", "many"), "DSPARK_VOCAB_SIZE"),
    ],
)
def test_the_process_ends_with_the_name_of_a_bad_setting(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    variable: tuple[str, str] | None,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if variable is not None:
        monkeypatch.setenv(*variable)
    with pytest.raises(SystemExit) as caught:
        main(["--listen", f"unix:{tmp_path}/s", *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
