"""What can happen to a fleet: one small coroutine for each kind of fault."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import redis.asyncio

from harness.chaos.edge import Edge
from harness.chaos.fleet import Fleet
from harness.chaos.kept_process import KeptProcess

# Does it, undoes what has to be undone, and says what it did.
Fault: TypeAlias = Callable[[Fleet, random.Random], Awaitable[str]]


def kill(kind: str) -> Fault:
    """SIGKILL to a process of the kind."""
    return _ended_by(signal.SIGKILL, kind)


def restart(kind: str) -> Fault:
    """SIGTERM to a process of the kind, as an update sends it."""
    return _ended_by(signal.SIGTERM, kind)


def _ended_by(number: signal.Signals, kind: str) -> Fault:
    async def fault(fleet: Fleet, generator: random.Random) -> str:
        process = _one_of(fleet, kind, generator)
        pid = await process.running_pid()
        if kind == "gateway":
            fleet.gateway_is_going()
        process.send(number)
        await process.wait_restarted(pid)
        return process.name

    return fault


def freeze(kind: str, longest_s: float, shortest_s: float = 0.2) -> Fault:
    """SIGSTOP for a while: the process is there and says nothing."""

    async def fault(fleet: Fleet, generator: random.Random) -> str:
        process, seconds = _one_of(fleet, kind, generator), generator.uniform(shortest_s, longest_s)
        await process.running_pid()
        process.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            process.send(signal.SIGCONT)
        return f"{process.name} for {seconds:.1f} s"

    return fault


async def delay_edge(fleet: Fleet, generator: random.Random) -> str:
    """Everything comes late."""
    edge, seconds = _edge(fleet, generator), generator.uniform(0.005, 0.2)
    edge.delay_s = seconds
    await asyncio.sleep(generator.uniform(0.5, 2.0))
    edge.heal()
    return f"{edge.name} by {seconds * 1e3:.0f} ms"


async def stall_edge(fleet: Fleet, generator: random.Random) -> str:
    """Nothing comes, then all of it."""
    edge, seconds = _edge(fleet, generator), generator.uniform(0.2, 3.0)
    edge.stall()
    await asyncio.sleep(seconds)
    edge.heal()
    return f"{edge.name} for {seconds:.1f} s"


async def cut_edge(fleet: Fleet, generator: random.Random) -> str:
    """Connections break."""
    edge = _edge(fleet, generator)
    edge.cut()
    return edge.name


async def truncate_edge(fleet: Fleet, generator: random.Random) -> str:
    """Connections break in the middle of a frame."""
    edge = _edge(fleet, generator)
    edge.truncate(generator.randrange(1, 400))
    return edge.name


async def vanish_edge(fleet: Fleet, generator: random.Random) -> str:
    """Connections go dead and neither end is told."""
    edge = _edge(fleet, generator)
    edge.vanish()
    return edge.name


async def corrupt_redis(fleet: Fleet, generator: random.Random) -> str:
    """Every value becomes another one, or another type."""
    client = redis.asyncio.Redis.from_url(f"unix://{fleet.plan.socket('redis')}")
    count = 0
    try:
        async for key in client.scan_iter(count=500):
            await client.delete(key)
            if generator.random() < 0.5:
                await client.set(key, generator.randbytes(24))
            else:
                await client.hset(key, mapping={generator.randbytes(6): generator.randbytes(6)})
            count += 1
    except redis.RedisError as error:
        return f"{count} values, then {type(error).__name__}"
    finally:
        await client.aclose()
    return f"{count} values"


async def flush_redis(fleet: Fleet, generator: random.Random) -> str:
    """All entries are gone."""
    client = redis.asyncio.Redis.from_url(f"unix://{fleet.plan.socket('redis')}")
    try:
        await client.flushall()
    except redis.RedisError as error:
        return type(error).__name__
    finally:
        await client.aclose()
    return ""


async def babbling_redis(fleet: Fleet, generator: random.Random) -> str:
    """Redis answers everything with bytes that mean nothing."""
    edge = fleet.edges["candidates-redis"]
    edge.noise = generator.choice((b"$-7\r\n", b"*999999999\r\n", b"\x00\xff" * 40, b"-OOM no\r\n"))
    await asyncio.sleep(generator.uniform(0.5, 2.0))
    noise = edge.noise
    edge.heal()
    return repr(noise[:12])


FAULTS: dict[str, Fault] = {
    "kill verifier": kill("verifier"),
    "kill scheduler": kill("scheduler"),
    "kill candidates": kill("candidates"),
    "kill redis": kill("redis"),
    "kill gateway": kill("gateway"),
    "restart verifier": restart("verifier"),
    "restart scheduler": restart("scheduler"),
    "restart candidates": restart("candidates"),
    "freeze verifier": freeze("verifier", 3.0),
    "freeze scheduler": freeze("scheduler", 3.0),
    "freeze candidates": freeze("candidates", 3.0),
    "freeze redis": freeze("redis", 3.0),
    "freeze gateway": freeze("gateway", 2.0),
    "delay an edge": delay_edge,
    "stall an edge": stall_edge,
    "cut an edge": cut_edge,
    "truncate an edge": truncate_edge,
    "vanish an edge": vanish_edge,
    "corrupt redis": corrupt_redis,
    "flush redis": flush_redis,
    "babbling redis": babbling_redis,
}

# So long that pings fail: only where another one can take over, and one at a time.
LONG_FAULTS: dict[str, Fault] = {
    "long freeze verifier": freeze("verifier", 22.0, 18.0),
    "long freeze scheduler": freeze("scheduler", 22.0, 18.0),
}


def _one_of(fleet: Fleet, kind: str, generator: random.Random) -> KeptProcess:
    return generator.choice(fleet.of_kind(kind))


def _edge(fleet: Fleet, generator: random.Random) -> Edge:
    return fleet.edges[generator.choice(sorted(fleet.edges))]
