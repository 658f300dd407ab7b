"""A peer whose connection went dead without a word is lost soon, and found where it is now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dspark import rpc
from harness.chaos.edge import Edge
from harness.waiting import until

SERVICE = "dspark.v1.VerifierService"
SHORT_MS = 300


@pytest.fixture
async def edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Edge]:
    """In front of a ready server; pings have the product's options, with times a test can wait."""
    assert [value for name, value in rpc._PEER_OPTIONS if "timeout" in name] == [10_000, 10_000]
    shorter = [(name, min(value, SHORT_MS)) for name, value in rpc._PEER_OPTIONS]
    monkeypatch.setattr(rpc, "_PEER_OPTIONS", shorter)
    server = rpc.Server([SERVICE])
    await server.start(f"unix:{tmp_path / 'server'}")
    await server.set_ready(True)
    edge = Edge("edge", tmp_path / "edge", tmp_path / "server")
    await edge.start()
    yield edge
    await server.stop(0)
    await edge.stop()


async def test_calls_of_a_service_find_a_way_past_a_dead_connection(edge: Edge) -> None:
    channel = rpc.channel(f"unix:{edge.listen}", service="verifier")
    assert await rpc.is_ready(channel, SERVICE)
    edge.vanish()
    assert not await rpc.is_ready(channel, SERVICE, timeout=0.1)
    await until(lambda: rpc.is_ready(channel, SERVICE, timeout=0.2), 20.0)
    await channel.close()


async def test_both_ends_of_an_idle_dead_connection_give_it_up(edge: Edge) -> None:
    channel = rpc.channel(f"unix:{edge.listen}", service="verifier")
    assert await rpc.is_ready(channel, SERVICE)
    assert edge.num_connections == 1
    edge.vanish()
    await until(lambda: edge.num_connections == 0, 20.0)
    await channel.close()


async def test_pings_do_not_offend_the_server(edge: Edge) -> None:
    channel = rpc.channel(f"unix:{edge.listen}", service="verifier")
    assert await rpc.is_ready(channel, SERVICE)
    edge.delay_s = SHORT_MS / 1e3 / 4
    for _ in range(8):
        assert await rpc.is_ready(channel, SERVICE)
    assert edge.num_accepted == 1
    await channel.close()
