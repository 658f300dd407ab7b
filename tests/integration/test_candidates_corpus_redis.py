"""Corpora in a real Redis: whole or absent, apart from all else, and never in the way."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from redis.exceptions import RedisError

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.metrics import metrics_registry
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.context_key import corpus_key
from dspark.candidates.sources.corpus import CorpusSource
from dspark.candidates.sources.corpus_file import CorpusFile
from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.candidates.sources.lessons import last_contexts
from dspark.candidates.sources.lookup_source import LookupSource
from dspark.candidates.sources.redis_corpus import publish
from dspark.candidates.sources.redis_lookups import RedisLookups
from dspark.candidates.sources.retrieval import RetrievalSource
from dspark.token_tree import TokenTree
from harness.corpora import corpus_file, indexed, info_of
from harness.fault_redis import RedisServer
from harness.waiting import until

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)

PATIENCE_S = 30.0
TEXT = (1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 4, 50)
KEY = corpus_key("m", "python")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


def config(server: RedisServer, *sources: str, model: str = "m") -> CandidatesConfig:
    return CandidatesConfig(
        sources=sources or ("corpus:python",),
        redis_url=server.url,
        redis_deadline_ms=10_000,
        model_id=model,
        vocab_size=100,
    )


def put(server: RedisServer, *texts: Sequence[int], vocab_size: int = 100, key: bytes = KEY) -> int:
    index = indexed(*texts)
    with server.client() as client:
        return publish(client, key, info_of(index, vocab_size), index.count())


def store_of(proposer: Proposer, runner: int = 0) -> RedisLookups:
    source = proposer.runners[runner].source
    assert isinstance(source, LookupSource)
    assert isinstance(source.store, RedisLookups)
    return source.store


@contextlib.asynccontextmanager
async def running(settings: CandidatesConfig) -> AsyncIterator[Proposer]:
    """A proposer whose stores in Redis are connected."""
    proposer = Proposer(build_sources(settings), settings)
    await proposer.start()
    try:
        stores = [store_of(proposer, n) for n in range(len(proposer.runners))]
        await until(lambda: not any(store.is_degraded for store in stores), PATIENCE_S)
        yield proposer
    finally:
        await proposer.close()


async def propose(proposer: Proposer, *token_ids: int) -> TokenTree:
    """The tree of the last source."""
    return await tree_of(proposer.runners[-1].source, token_ids)


async def tree_of(source: CandidateSource, token_ids: Sequence[int]) -> TokenTree:
    live = LiveSequence("q", 0, "", 1, list(token_ids))
    trees = source.propose([DraftRequest(live, 9, 9)], 0.0)
    (tree,) = trees if isinstance(trees, Sequence) else await trees
    return tree


async def test_trees_are_those_of_the_same_corpus_in_a_file(
    server: RedisServer, tmp_path: Path
) -> None:
    put(server, TEXT)
    file = CorpusSource("corpus:python", CorpusFile(corpus_file(tmp_path / "c", TEXT)))
    async with running(config(server)) as proposer:
        for end in range(2, len(TEXT)):
            assert await propose(proposer, *TEXT[:end]) == await tree_of(file, TEXT[:end])
        assert not store_of(proposer).counts


async def test_it_never_expires_and_nothing_is_left_beside_it(server: RedisServer) -> None:
    put(server, TEXT)
    with server.client() as client:
        assert client.keys("*") == [KEY]
        assert client.ttl(KEY) == -1
        assert client.hlen(KEY) == len(indexed(TEXT).count()) + 1


async def test_many_entries_are_all_there(server: RedisServer) -> None:
    text = [n % 97 for n in range(4000)] + list(range(97))
    index = indexed(text, [n * n % 97 for n in range(3000)])
    with server.client() as client:
        num_bytes = publish(client, KEY, info_of(index), index.count())
        assert client.hlen(KEY) == len(index.count()) + 1
    assert num_bytes > 20 * len(index.count())


async def test_a_new_corpus_replaces_the_old_one_under_readers(server: RedisServer) -> None:
    put(server, TEXT)
    async with running(config(server)) as proposer:
        assert len(await propose(proposer, 7, 8)) > 0
        put(server, [60, 61, 62])
        assert len(await propose(proposer, 7, 8)) == 0
        assert (await propose(proposer, 60, 61)).token_ids == (62,)


async def test_retrieval_neither_sees_nor_touches_it(server: RedisServer) -> None:
    put(server, TEXT)
    with server.client() as client:
        before = client.hgetall(KEY)
    async with running(config(server, "corpus:python", "retrieval")) as proposer:
        retrieval = proposer.runners[1].source
        assert isinstance(retrieval, RetrievalSource)
        assert len(await propose(proposer, 3, 4)) == 0
        live = LiveSequence("r", 0, "", 1, [1, 2, 3, 4, 99, 98])
        for runner in proposer.runners:
            runner.source.release(live, True)
        await retrieval.drain()
        assert (await propose(proposer, 3, 4)).token_ids[0] == 99
    with server.client() as client:
        assert client.hgetall(KEY) == before


async def test_metrics_of_several_stores_have_names_of_their_own(server: RedisServer) -> None:
    put(server, TEXT)
    put(server, TEXT, key=corpus_key("m", "b"))
    async with running(config(server, "corpus:python", "corpus:b", "retrieval")) as proposer:
        lines = generate_latest(metrics_registry(proposer)).decode().splitlines()
        samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
        assert len(samples) == len(set(samples))
        for name in ("corpus:python", "corpus:b"):
            assert f'dspark_candidates_store_seconds_count{{operation="{name}"}}' in samples
            assert f'dspark_breaker_state{{breaker="redis_{name}"}}' in samples


@pytest.mark.parametrize("name", ["corpus:other", "corpus:python"])
async def test_one_that_is_not_there_is_named_at_the_start(server: RedisServer, name: str) -> None:
    put(server, TEXT, key=corpus_key("another", "python"))
    settings = config(server, name)
    proposer = Proposer(build_sources(settings), settings)
    with pytest.raises(ValueError, match=f"sources: {name} is in no file and not in Redis"):
        await proposer.start()


async def test_one_of_another_vocabulary_is_refused(server: RedisServer) -> None:
    put(server, TEXT, vocab_size=50)
    settings = config(server)
    proposer = Proposer(build_sources(settings), settings)
    with pytest.raises(ValueError, match="corpus:python in Redis is made for a vocabulary of 50"):
        await proposer.start()


async def test_a_server_that_comes_later_serves_it(server: RedisServer) -> None:
    server.stop()
    settings = config(server)
    proposer = Proposer(build_sources(settings), settings)
    await proposer.start()
    assert len(await propose(proposer, 7, 8)) == 0
    server.start()
    put(server, TEXT)
    store = store_of(proposer)
    await until(lambda: not store.is_degraded, PATIENCE_S)
    assert (await propose(proposer, 7, 8)).token_ids[0] == 9
    await proposer.close()


async def test_garbage_yields_nothing_and_is_counted(server: RedisServer) -> None:
    put(server, TEXT)
    with server.client() as client:
        for context in last_contexts(b"", (1, 2, 3, 4, 5, 6, 7, 8)):
            client.hset(KEY, context.digest, b"\xff\xff")
    async with running(config(server)) as proposer:
        assert len(await propose(proposer, 3, 4, 5, 6, 7, 8)) == 0
        assert proposer.runners[0].source.vitals().troubles["store_garbage"] > 0


async def test_a_full_server_refuses_it_and_keeps_the_old_one(server: RedisServer) -> None:
    put(server, TEXT)
    with server.client() as client:
        before = client.hgetall(KEY)
        client.config_set("maxmemory", "1kb")
    with pytest.raises(RedisError, match=r"(?i)maxmemory|OOM"):
        put(server, [n * n % 97 for n in range(3000)])
    with server.client() as client:
        client.config_set("maxmemory", "0")
        assert client.hgetall(KEY) == before
        assert client.keys("*") == [KEY]
