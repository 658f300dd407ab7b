"""The probe says SERVING only when the service does, and why when it does not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from dspark import health, rpc

SERVICE = "dspark.v1.SchedulerService"


@pytest.fixture
async def server() -> AsyncIterator[rpc.Server]:
    server = rpc.Server([SERVICE])
    yield server
    await server.stop(grace=0)


async def probe(*arguments: str) -> int:
    return await asyncio.to_thread(health.main, list(arguments))


async def test_alive_then_ready(server: rpc.Server, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{await server.start('127.0.0.1:0')}"
    assert await probe(address) == 0
    assert await probe(address, SERVICE) == 1
    await server.set_ready(True)
    assert await probe(address, SERVICE) == 0
    assert capsys.readouterr().out.split() == ["SERVING", "NOT_SERVING", "SERVING"]


async def test_an_unknown_service(server: rpc.Server, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{await server.start('127.0.0.1:0')}"
    assert await probe(address, "dspark.v1.NoService") == 1
    assert capsys.readouterr().out.startswith("NOT_FOUND: ")


async def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert await probe("127.0.0.1:1", "--timeout-s", "2") == 1
    assert capsys.readouterr().out.startswith(("UNAVAILABLE: ", "DEADLINE_EXCEEDED: "))


async def test_an_answer_that_does_not_come() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert await probe(f"127.0.0.1:{silent.getsockname()[1]}", "--timeout-s", "0.2") == 1


def test_bad_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        health.main([])
    assert ended.value.code == 2
