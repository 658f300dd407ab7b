"""Targets and timeouts."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

import pytest

from dspark.client import AsyncClient, Client
from dspark.client.target import checked_target
from dspark.client.timeout import checked_timeout
from dspark.errors import InvalidArgument


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "5", True])
async def test_a_timeout_is_a_finite_number_above_0(value: Any) -> None:
    async with AsyncClient("127.0.0.1:1") as client:
        calls: list[Coroutine[Any, Any, Any]]
        calls = [client.generate("hi", timeout=value), client.models(value), client.is_ready(value)]
        for call in calls:
            with pytest.raises(InvalidArgument) as caught:
                await call
            assert caught.value.field == "timeout"


def test_a_long_timeout_is_one_that_grpc_understands() -> None:
    assert checked_timeout(None) is None
    assert checked_timeout(5) == 5.0
    assert checked_timeout(1e300) == 1e9


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_http_address_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidArgument, match="gRPC") as caught:
        kind("http://127.0.0.1:8000")
    assert caught.value.field == "target"


NO_ADDRESSES = ["", None, 1, b"h:1", "localhost", "no such host:1", "h:x", "h:99999", "h:1/x", ":1"]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("target", NO_ADDRESSES)
def test_what_is_no_address_is_refused(kind: Any, target: Any) -> None:
    with pytest.raises(InvalidArgument, match="host:port") as caught:
        kind(target)
    assert caught.value.field == "target"


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("grpc://h:1/", "h:1"),
        ("[::1]:5", "[::1]:5"),
        ("unix:/tmp/x.sock", "unix:/tmp/x.sock"),
        ("dns:///gateway:50051", "dns:///gateway:50051"),
    ],
)
def test_forms_of_addresses(target: str, address: str) -> None:
    assert checked_target(target) == address


def test_a_client_follows_to_the_next_event_loop() -> None:
    client = AsyncClient("127.0.0.1:1")
    assert not asyncio.run(client.is_ready())
    assert not asyncio.run(client.is_ready())
    asyncio.run(client.close())


async def test_two_event_loops_at_a_time_are_one_too_many() -> None:
    async with AsyncClient("127.0.0.1:1") as client:
        await client.is_ready()
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, client.is_ready())
