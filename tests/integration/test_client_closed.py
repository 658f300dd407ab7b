"""A closed client says so, whatever it is asked and whatever ran when it was closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from dspark.client import AsyncClient, Client, ClientClosed
from dspark.client.event_loop import BackgroundLoop
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import gateway_stack

ENDLESS = Script(runs_of("ab"), repeat=True, delay_s=0.02)
NO_SERVER = "127.0.0.1:1"


async def stream(client: AsyncClient) -> None:
    async for _ in client.stream("hi"):
        pass


CALLS: list[Callable[[AsyncClient], Coroutine[Any, Any, Any]]] = [
    lambda client: client.generate("hi"),
    stream,
    lambda client: client.models(),
    lambda client: client.is_ready(),
]


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_after_close(call: Callable[[AsyncClient], Any]) -> None:
    client = AsyncClient(NO_SERVER)
    await client.is_ready()
    await client.close()
    await client.close()
    with pytest.raises(ClientClosed, match="the client is closed"):
        await call(client)


@pytest.mark.parametrize("has_neighbour", [False, True])
def test_a_call_after_close_of_the_sync_client(has_neighbour: bool) -> None:
    neighbour = Client(NO_SERVER) if has_neighbour else None
    client = Client(NO_SERVER)
    client.close()
    client.close()
    calls: list[Callable[[], Any]] = [
        lambda: client.generate("hi"),
        lambda: client.stream("hi"),
        client.models,
        client.is_ready,
    ]
    for call in calls:
        with pytest.raises(ClientClosed):
            call()
    if neighbour is not None:
        assert not neighbour.is_ready()
        neighbour.close()


async def test_close_ends_what_runs(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path, FakeScheduler(ENDLESS)) as stack:
        client = AsyncClient(stack.grpc_target)
        streamed = client.stream("hi", max_tokens=100)
        await anext(streamed)
        whole = asyncio.create_task(client.generate("hi", max_tokens=100))
        while len(stack.scheduler.requests) < 2:
            await asyncio.sleep(0.01)
        await client.close()
        for running in (anext(streamed), whole):
            with pytest.raises(ClientClosed):
                await running
        await streamed.aclose()
        assert await stack.scheduler.wait_cancelled(count=2)


def test_streams_of_a_closed_sync_client(tmp_path: Path) -> None:
    loop = BackgroundLoop.acquire()
    running = gateway_stack(tmp_path, FakeScheduler(ENDLESS))
    stack = loop.run(running.__aenter__())
    client = Client(stack.grpc_target)
    with client.stream("hi", max_tokens=100) as streamed:
        next(streamed)
        client.close()
        with pytest.raises(ClientClosed):
            next(streamed)
    loop.run(running.__aexit__(None, None, None))
    loop.release()
    streamed.close()
    with pytest.raises(ClientClosed):
        next(streamed)
