"""Fault 35 as a class: whatever Redis does, look-ups yield nothing in time, and recover alone."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.context_key import context_key, namespace
from dspark.candidates.sources.interface import DraftRequest
from dspark.candidates.sources.lessons import CONTEXT_LENGTHS
from dspark.candidates.sources.redis_store import RedisStore
from dspark.candidates.sources.retrieval import RetrievalSource
from dspark.token_tree import TokenTree
from harness.fault_redis import RedisServer, SlowProxy, babbler, black_hole
from harness.waiting import until

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)

# Look-ups that are meant to succeed may take long on a busy machine; those that are not, end soon.
LONG_DEADLINE_S = 10.0
SHORT_DEADLINE_S = 0.2
PATIENCE_S = 30.0
TEXT = (1, 2, 3, 4, 5, 6, 7, 8, 9)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


def make_store(
    url: str,
    *,
    deadline_s: float = LONG_DEADLINE_S,
    ttl_s: int = 60,
    max_entries: int = 10_000,
) -> RedisStore:
    return RedisStore(url, deadline_s=deadline_s, ttl_s=ttl_s, max_entries=max_entries)


@contextlib.asynccontextmanager
async def retrieval(
    url: str, model: str = "m", deadline_s: float = LONG_DEADLINE_S
) -> AsyncIterator[tuple[RetrievalSource, RedisStore]]:
    store = make_store(url, deadline_s=deadline_s)
    source = RetrievalSource(store, model)
    await source.start()
    try:
        yield source, store
    finally:
        await source.close()


async def connected(store: RedisStore) -> None:
    await until(lambda: not store.is_degraded, PATIENCE_S)


async def teach(source: RetrievalSource, *token_ids: int, salt: str = "") -> None:
    source.release(LiveSequence("r", 0, salt, 1, list(token_ids)), completed=True)
    await source.drain()


async def propose(source: RetrievalSource, *token_ids: int, salt: str = "") -> TokenTree:
    trees = source.propose(
        [DraftRequest(LiveSequence("q", 0, salt, 1, list(token_ids)), 9, 9)], 0.0
    )
    if not isinstance(trees, Sequence):
        trees = await trees
    (tree,) = trees
    return tree


async def test_what_one_worker_learns_another_one_finds(server: RedisServer) -> None:
    async with retrieval(server.url) as (first, store), retrieval(server.url) as (second, other):
        await connected(store)
        await connected(other)
        await teach(first, *TEXT)
        assert (await propose(second, 3, 4)).token_ids == (5, 6, 7, 8)
        await teach(second, 3, 4, 50)
        await teach(first, 3, 4, 50)
        tree = await propose(first, 3, 4)
        assert tree.token_ids[0] == 50
        assert set(tree.token_ids) > {5, 50}
        assert not store.counts


async def test_tenants_and_models_have_their_own_keys(server: RedisServer) -> None:
    async with (
        retrieval(server.url) as (source, store),
        retrieval(server.url, "n") as (other, more),
    ):
        await connected(store)
        await connected(more)
        await teach(source, *TEXT, salt="a")
        assert len(await propose(source, 3, 4, salt="a")) > 0
        assert len(await propose(source, 3, 4, salt="b")) == 0
        assert len(await propose(source, 3, 4)) == 0
        assert len(await propose(other, 3, 4, salt="a")) == 0


async def test_a_batch_of_lookups_is_one_command(server: RedisServer) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        with server.client() as client:
            before = client.info("commandstats").get("cmdstat_mget", {"calls": 0})["calls"]
            requests = [
                DraftRequest(LiveSequence(str(n), 0, "", 1, list(TEXT)), 9, 9) for n in range(8)
            ]
            trees = source.propose(requests, 0.0)
            assert not isinstance(trees, Sequence)
            assert len(await trees) == 8
            assert client.info("commandstats")["cmdstat_mget"]["calls"] == before + 1


async def test_entries_expire_and_their_number_is_bounded(server: RedisServer) -> None:
    store = make_store(server.url, ttl_s=77, max_entries=10)
    source = RetrievalSource(store, "m")
    await source.start()
    await connected(store)
    await teach(source, *range(500))
    with server.client() as client:
        keys = client.keys("*")
        assert 0 < len(keys) <= 10 * len(CONTEXT_LENGTHS)
        assert all(0 < client.ttl(key) <= 77 for key in keys)
    await source.close()


async def test_start_without_a_server_and_recover_when_it_comes(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    async with retrieval(server.url) as (source, store):
        await asyncio.sleep(0.05)
        assert store.is_degraded
        assert len(await propose(source, 3, 4)) == 0
        await teach(source, *TEXT)
        assert store.counts["skipped"] > 0
        server.start()
        try:
            await connected(store)
            await teach(source, *TEXT)
            assert (await propose(source, 3, 4)).token_ids == (5, 6, 7, 8)
        finally:
            server.stop()


async def test_a_crash_midway_and_a_restart(server: RedisServer) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        await teach(source, *TEXT)
        server.stop()
        while not store.is_degraded:
            assert len(await propose(source, 3, 4)) == 0
        assert len(await propose(source, 3, 4)) == 0
        await teach(source, *TEXT)
        server.start()
        await connected(store)
        await teach(source, *TEXT)
        assert len(await propose(source, 3, 4)) > 0


async def test_a_quick_restart_costs_at_most_a_look_up(server: RedisServer) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        server.stop()
        server.start()
        await propose(source, 3, 4)
        await teach(source, *TEXT)
        await until(lambda: not store.is_degraded, PATIENCE_S)
        await teach(source, *TEXT)
        assert len(await propose(source, 3, 4)) > 0


async def test_a_flush_only_forgets(server: RedisServer) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        await teach(source, *TEXT)
        with server.client() as client:
            client.flushall()
        assert len(await propose(source, 3, 4)) == 0
        await teach(source, *TEXT)
        assert len(await propose(source, 3, 4)) > 0
        assert not store.counts


@pytest.mark.parametrize("garbage", [b"", b"\x01", b"\x01" + b"x" * 7, b"\xff" * 100, b"x" * 10**5])
async def test_garbage_values_are_counted_and_then_replaced(
    server: RedisServer, garbage: bytes
) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        await teach(source, *TEXT)
        with server.client() as client:
            for key in client.keys("*"):
                client.set(key, garbage)
        assert len(await propose(source, 3, 4)) == 0
        assert store.counts["garbage"] > 0
        assert not store.is_degraded
        await teach(source, *TEXT)
        assert len(await propose(source, 3, 4)) > 0


async def test_truncated_values_lose_entries_at_most(server: RedisServer) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        await teach(source, *TEXT)
        with server.client() as client:
            for key in client.keys("*"):
                value = client.get(key)
                assert isinstance(value, bytes)
                client.set(key, value[:-1])
        assert len(await propose(source, 3, 4)) == 0
        assert store.counts["garbage"] == 1


async def test_values_of_another_type_are_passed_over_and_replaced(server: RedisServer) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        await teach(source, *TEXT)
        with server.client() as client:
            for key in client.keys("*"):
                client.delete(key)
                client.hset(key, "a", "b")
        assert len(await propose(source, 3, 4)) == 0
        assert not store.is_degraded
        await teach(source, *TEXT)
        assert len(await propose(source, 3, 4)) > 0


async def test_another_contexts_value_in_the_same_slot_is_not_used(server: RedisServer) -> None:
    store = make_store(server.url, max_entries=1)
    await store.start()
    await connected(store)
    space = namespace("m", "")
    first, second = context_key(space, (1, 2)), context_key(space, (3, 4))
    await store.learn([(first, (5,))])
    assert await found(store, [first, second]) == [[((5,), 1)], []]
    await store.learn([(second, (6,))])
    assert await found(store, [first, second]) == [[], [((6,), 1)]]
    await store.close()


async def found(store: RedisStore, keys: list[object]) -> list[object]:
    counted = store.lookup(keys)  # type: ignore[arg-type]
    return list(counted if isinstance(counted, Sequence) else await counted)


async def test_full_memory_refuses_writes_but_not_reads(server: RedisServer) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        await teach(source, *TEXT)
        with server.client() as client:
            client.config_set("maxmemory", "1kb")
            await teach(source, *range(100, 200))
            assert store.counts["refused"] > 0
            assert store.counts["skipped"] > 0
            assert not store.is_degraded
            assert len(await propose(source, 3, 4)) > 0
            client.config_set("maxmemory", "0")
        give_up_at = time.monotonic() + PATIENCE_S
        while len(await propose(source, 110, 111)) == 0:
            assert time.monotonic() < give_up_at
            await teach(source, *range(100, 200))
            await asyncio.sleep(0.05)


async def test_a_slow_server_is_left_alone_until_it_is_quick_again(
    server: RedisServer, tmp_path: Path
) -> None:
    proxy = SlowProxy(server.socket, tmp_path / "proxy.sock")
    async with (
        proxy.running(),
        retrieval(proxy.url, deadline_s=SHORT_DEADLINE_S) as (source, store),
    ):
        await connected(store)
        async with retrieval(server.url) as (teacher, direct):
            await connected(direct)
            await teach(teacher, *TEXT)
        proxy.delay_s = 3600.0
        while not store.is_degraded:
            assert len(await propose(source, 3, 4)) == 0
        assert store.counts["lookup"] >= 1
        failed = store.counts["lookup"]
        for _ in range(100):
            assert len(await propose(source, 3, 4)) == 0
        assert store.counts["lookup"] == failed
        proxy.delay_s = 0.0
        give_up_at = time.monotonic() + PATIENCE_S
        while len(await propose(source, 3, 4)) == 0:
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.02)


async def test_a_late_answer_costs_no_connection(server: RedisServer, tmp_path: Path) -> None:
    def num_connections() -> int:
        """As the server counts all it ever had, this question's own among them."""
        with server.client() as client:
            return int(client.info("stats")["total_connections_received"])

    proxy = SlowProxy(server.socket, tmp_path / "proxy.sock")
    async with (
        proxy.running(),
        retrieval(proxy.url, deadline_s=SHORT_DEADLINE_S) as (source, store),
    ):
        await connected(store)
        await teach(source, *TEXT)
        before = num_connections()
        proxy.delay_s = 4 * SHORT_DEADLINE_S
        assert len(await propose(source, 3, 4)) == 0
        assert store.counts["lookup"] == 1
        proxy.delay_s = 0.0
        await asyncio.sleep(8 * SHORT_DEADLINE_S)
        await until(lambda: not store.is_degraded, PATIENCE_S)
        assert len(await propose(source, 3, 4)) > 0
        assert num_connections() == before + 1
        assert store.counts["lookup"] == 1


async def test_a_black_hole_never_delays_a_look_up(tmp_path: Path) -> None:
    async with black_hole(tmp_path / "hole.sock") as url, retrieval(url) as (source, store):
        await asyncio.sleep(0.05)
        for _ in range(100):
            assert len(await propose(source, 3, 4)) == 0
        assert store.is_degraded
        assert store.counts["lookup"] == 0
        await teach(source, *TEXT)


@pytest.mark.parametrize(
    "noise",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\xff\r\n", b"-LOADING soon\r\n", b"+PONG\r\n"],
)
async def test_a_server_that_is_no_redis_yields_nothing(tmp_path: Path, noise: bytes) -> None:
    async with babbler(tmp_path / "babbler.sock", noise) as url, retrieval(url) as (source, _):
        for _ in range(20):
            assert len(await propose(source, 3, 4)) == 0
            await asyncio.sleep(0.005)
        await teach(source, *TEXT)
        assert len(await propose(source, 3, 4)) == 0


async def test_a_look_up_that_is_cancelled_leaves_the_connection_usable(
    server: RedisServer,
) -> None:
    async with retrieval(server.url) as (source, store):
        await connected(store)
        await teach(source, *TEXT)
        for _ in range(20):
            call = asyncio.ensure_future(propose(source, 8, 9))
            await asyncio.sleep(0)
            call.cancel()
        await asyncio.sleep(0.05)
        assert (await propose(source, 3, 4)).token_ids == (5, 6, 7, 8)
        assert not store.is_degraded


async def test_a_server_that_never_answered_is_told_once(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.stop()

    def told(text: str) -> int:
        return sum(text in record.message for record in caplog.records)

    with caplog.at_level("INFO"):
        async with retrieval(server.url) as (_, store):
            await until(lambda: told("going on without") > 0, PATIENCE_S)
            server.start()
            await connected(store)
            await until(lambda: told("is connected") > 0, PATIENCE_S)
    assert told("going on without") == 1
