"""Requests go to the least busy scheduler that answers; what one holds is stopped there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

import pytest

from dspark.errors import (
    BackendUnavailable,
    Draining,
    DSparkError,
    DuplicateRequest,
    InvalidArgument,
    UnknownRequest,
)
from dspark.gateway import scheduler_client, scheduler_pool
from dspark.gateway.scheduler_client import SchedulerClient
from dspark.gateway.scheduler_pool import SchedulerPool
from dspark.gateway.token_source import GenerationRequest, SchedulerInfo, SchedulerStatus
from dspark.generation import StreamEvent, TokenChunk
from dspark.sampling import SamplingParams, SourceCounts, SpeculationStats

INFO = SchedulerInfo(10, 100, 100, frozenset({1}), ("suffix",), "strict", "off")


class Source:
    """A scheduler that streams until it is told to end or to fail."""

    def __init__(self) -> None:
        self.error: DSparkError | None = None
        self.ends: dict[str, asyncio.Event] = {}
        self.stopped: list[str] = []
        self.is_closed = False

    async def generate(
        self, request: GenerationRequest, timeout_s: float | None
    ) -> AsyncGenerator[StreamEvent, None]:
        if self.error is not None:
            raise self.error
        end = self.ends[request.request_id] = asyncio.Event()
        yield TokenChunk((1,))
        await end.wait()
        if self.error is not None:
            raise self.error

    async def stop(self, request_id: str) -> None:
        self.stopped.append(request_id)

    async def info(self) -> SchedulerInfo:
        if self.error is not None:
            raise self.error
        return INFO

    async def status(self) -> SchedulerStatus:
        if self.error is not None:
            raise self.error
        sources = {"suffix": SourceCounts(drafted=4, accepted=2)}
        stats = SpeculationStats(8, 9, 10, sources)
        return SchedulerStatus(1, 2, 3, 4, 16, 5, 6, 7, (9, 1), stats)

    def abandon(self) -> None:
        self.error = self.error or BackendUnavailable("scheduler", "does not answer")
        for end in self.ends.values():
            end.set()

    async def close(self) -> None:
        self.is_closed = True


class Pool:
    """A pool whose addresses the test sets."""

    def __init__(self, *names: str) -> None:
        self.sources: dict[str, Source] = {}
        self._names: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()
        self._names.put_nowait(names)
        self.pool = SchedulerPool(self._addresses, self._connect)

    def set_names(self, *names: str) -> None:
        self._names.put_nowait(names)

    async def _addresses(self) -> AsyncIterator[tuple[str, ...]]:
        while not self._names.empty():
            yield self._names.get_nowait()

    def _connect(self, name: str) -> Source:
        return self.sources.setdefault(name, Source())


async def pool_of(*names: str) -> Pool:
    pool = Pool(*names)
    await pool.pool.run()
    return pool


def request(request_id: str) -> GenerationRequest:
    return GenerationRequest(request_id, (1, 2), SamplingParams(max_tokens=8))


async def begin(pool: Pool, request_id: str) -> AsyncGenerator[StreamEvent, None]:
    stream = pool.pool.generate(request(request_id), None)
    await anext(stream)
    return stream


async def test_a_choice_goes_where_the_first_of_its_prompt_runs() -> None:
    pool = await pool_of("a", "b")
    streams = [await begin(pool, "r0"), await begin(pool, "r1")]
    for index in range(4):
        beside = replace(request(f"r1-{index}"), beside="r1")
        streams.append(pool.pool.generate(beside, None))
        await anext(streams[-1])
    assert sorted(pool.sources["b"].ends) == ["r1", "r1-0", "r1-1", "r1-2", "r1-3"]
    gone = pool.pool.generate(replace(request("r9"), beside="over"), None)
    await anext(gone)
    assert "r9" in pool.sources["a"].ends
    for stream in (*streams, gone):
        await stream.aclose()


async def test_clients_that_hang_up_count_against_no_scheduler() -> None:
    pool = await pool_of("a", "b")
    for index in range(10):
        await (await begin(pool, f"r{index}")).aclose()
        task = asyncio.create_task(_read_all(pool, f"s{index}"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    streams = [await begin(pool, name) for name in ("x", "y")]
    assert [sorted({"x", "y"} & set(source.ends)) for source in pool.sources.values()] == [
        ["x"],
        ["y"],
    ]
    for stream in streams:
        await stream.aclose()


async def _read_all(pool: Pool, request_id: str) -> None:
    async for _ in pool.pool.generate(request(request_id), None):
        pass


async def test_requests_are_spread() -> None:
    pool = await pool_of("a", "b")
    streams = [await begin(pool, f"r{n}") for n in range(4)]
    assert {name: len(source.ends) for name, source in pool.sources.items()} == {"a": 2, "b": 2}
    for stream in streams:
        await stream.aclose()


@pytest.mark.parametrize("error", [BackendUnavailable("scheduler", "gone"), Draining("bye")])
async def test_one_that_fails_is_left_alone_until_it_answers(error: DSparkError) -> None:
    pool = await pool_of("a", "b")
    pool.sources["a"].error = error
    with pytest.raises(type(error)):
        await begin(pool, "r1")
    streams = [await begin(pool, f"r{n}") for n in range(2, 4)]
    assert len(pool.sources["b"].ends) == 2
    assert await pool.pool.info() == INFO
    pool.sources["a"].error = None
    await pool.pool.info()
    streams.append(await begin(pool, "r4"))
    assert set(pool.sources["a"].ends) == {"r4"}
    for stream in streams:
        await stream.aclose()


async def test_a_refusal_says_nothing_of_the_scheduler() -> None:
    pool = await pool_of("a")
    pool.sources["a"].error = InvalidArgument("prompt", "bad")
    with pytest.raises(InvalidArgument):
        await begin(pool, "r1")
    pool.sources["a"].error = None
    await (await begin(pool, "r2")).aclose()


async def test_if_none_answers_any_is_asked() -> None:
    pool = await pool_of("a")
    pool.sources["a"].error = BackendUnavailable("scheduler", "gone")
    with pytest.raises(BackendUnavailable):
        await pool.pool.info()
    with pytest.raises(BackendUnavailable):
        await pool.pool.status()
    pool.sources["a"].error = None
    await (await begin(pool, "r1")).aclose()


async def test_requests_leave_a_scheduler_that_is_silent_while_another_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler_pool, "SILENCE_S", 0.0)
    pool = await pool_of("a", "b")
    streams = [await begin(pool, "r1"), await begin(pool, "r2")]
    for name in "ab":
        pool.sources[name].error = BackendUnavailable("scheduler", "silent")
    with pytest.raises(BackendUnavailable):
        await pool.pool.info()
    pool.sources["b"].error = None
    await pool.pool.info()
    await pool.pool.info()
    with pytest.raises(BackendUnavailable):
        await anext(streams[0])
    assert not pool.sources["b"].ends["r2"].is_set()
    for stream in streams:
        await stream.aclose()


async def test_without_an_address_there_is_a_clear_error() -> None:
    pool = await pool_of()
    for call in (pool.pool.info(), pool.pool.status(), begin(pool, "r")):
        with pytest.raises(BackendUnavailable, match="no address"):
            await call


async def test_a_request_is_stopped_where_it_runs() -> None:
    pool = await pool_of("a", "b")
    streams = [await begin(pool, "r1"), await begin(pool, "r2")]
    await pool.pool.stop("r2")
    assert [pool.sources[name].stopped for name in "ab"] == [[], ["r2"]]
    for stream in streams:
        await stream.aclose()
    with pytest.raises(UnknownRequest):
        await pool.pool.stop("r2")


async def test_an_id_is_live_once_in_all_schedulers() -> None:
    pool = await pool_of("a", "b")
    stream = await begin(pool, "r1")
    with pytest.raises(DuplicateRequest):
        await begin(pool, "r1")
    await pool.pool.stop("r1")
    assert pool.sources["a"].stopped == ["r1"] and pool.sources["b"].ends == {}
    await stream.aclose()
    await (await begin(pool, "r1")).aclose()


async def test_counts_are_summed() -> None:
    pool = await pool_of("a", "b")
    status = await pool.pool.status()
    assert (status.num_running, status.num_waiting, status.cached_tokens) == (2, 4, 14)
    assert (status.block_size, status.accepted_by_position) == (16, (18, 2))
    assert status.speculation.accepted == 20
    assert status.speculation.sources == {"suffix": SourceCounts(drafted=8, accepted=4)}


async def test_a_scheduler_that_leaves_ends_its_requests_first() -> None:
    pool = await pool_of("a", "b")
    streams = [await begin(pool, "r1"), await begin(pool, "r2")]
    pool.set_names("b")
    await pool.pool.run()
    assert not pool.sources["a"].is_closed
    streams.append(await begin(pool, "r3"))
    assert set(pool.sources["b"].ends) == {"r2", "r3"}
    await pool.pool.stop("r1")
    for stream in streams:
        await stream.aclose()
    pool.set_names("b")
    await pool.pool.run()
    assert pool.sources["a"].is_closed and not pool.sources["b"].is_closed
    await pool.pool.close()
    assert pool.sources["b"].is_closed


@pytest.mark.parametrize("pause_s", [0, 0.05])
async def test_a_scheduler_that_leaves_while_it_is_asked_has_not_answered(
    monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    monkeypatch.setattr(scheduler_client, "CONTROL_TIMEOUT_S", 0.2)
    names: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()

    async def addresses() -> AsyncIterator[tuple[str, ...]]:
        while not names.empty():
            yield names.get_nowait()

    pool = SchedulerPool(addresses, SchedulerClient)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        names.put_nowait((f"{host}:{port}",))
        await pool.run()
        asked = asyncio.create_task(pool.info())
        await asyncio.sleep(pause_s)
        names.put_nowait(())
        await pool.run()
        with pytest.raises(BackendUnavailable):
            await asked
    await pool.close()
