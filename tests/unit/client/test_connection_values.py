"""Targets and timeouts."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from typing import Any

import pytest

from dspark.client import AsyncClient, Client
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


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("target", ["", None, 50051, b"127.0.0.1:1"])
def test_what_is_no_address_is_refused(kind: Any, target: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kind(target)
    assert caught.value.field == "target"
