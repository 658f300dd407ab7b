"""Requests move with their K/V between real engines, and the tokens stay the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dspark.kv_blocks import KvBlocks
from dspark.sampling import SamplingParams
from dspark.scheduler import balancer, shipping
from dspark.scheduler.blocks_client import BlocksImport
from dspark.scheduler.moves import MoveReason, MoveWay
from dspark.verifier.engine import Engine
from dspark.verifier.server import RunningVerifier, serving
from harness.fake_candidates import FakeCandidates
from harness.fake_model import FakeModel
from harness.running_scheduler import RunningScheduler, Streamed, make_request, running_scheduler
from harness.scripted_drafters import KnownText
from harness.verifier_engine import plain_decode
from harness.verifier_service import fake_config, fake_loader
from harness.waiting import until

MODEL = FakeModel()
NUM_REQUESTS = 4
NUM_TOKENS = 120
SHIPPED = MoveReason.DRAIN, MoveWay.SHIP
RECOMPUTED = MoveReason.DRAIN, MoveWay.RECOMPUTE


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancer, "TICK_S", 0.02)
    # Prompts of a test are small, so anything is worth shipping.
    monkeypatch.setattr(shipping, "FIXED_MS", 0.0)


def prompt_of(index: int) -> tuple[int, ...]:
    return tuple((3 * index + 5 * i) % MODEL.vocab_size for i in range(60 + index))


def params_of(index: int) -> SamplingParams:
    """Half of them greedy, half drawn."""
    temperature = 0.9 if index % 2 else 0.0
    return SamplingParams(
        temperature=temperature, seed=index, max_tokens=NUM_TOKENS, ignore_eos=True
    )


WANTED = [plain_decode(MODEL, prompt_of(i), params_of(i))[0] for i in range(NUM_REQUESTS)]


@dataclass
class Pair:
    """A scheduler of two real engines."""

    verifiers: tuple[RunningVerifier, ...]
    running: RunningScheduler

    @property
    def engines(self) -> tuple[Engine, ...]:
        return tuple(verifier.engine for verifier in self.verifiers)

    def begin(self, **fields: Any) -> list[asyncio.Task[Streamed]]:
        requests = (
            make_request(f"r{i}", prompt_of(i), params_of(i), **fields) for i in range(NUM_REQUESTS)
        )
        return [asyncio.create_task(self.running.client.generate(r)) for r in requests]

    async def drain_first(self) -> None:
        """Once the first verifier decodes its requests, let it run empty."""
        live = self.running.server.scheduler.pool.workers[0].live
        await until(lambda: any(r.num_generated_tokens > 4 for r in live))
        self.running.server.scheduler.drain_worker(f"127.0.0.1:{self.verifiers[0].port}")

    @property
    def moves(self) -> dict[tuple[MoveReason, MoveWay], int]:
        return dict(self.running.server.scheduler.books.moves)

    async def check(self, tasks: list[asyncio.Task[Streamed]]) -> None:
        """All streams are whole, and no block is left in use."""
        async with asyncio.timeout(60):
            streams = await asyncio.gather(*tasks)
        assert [streamed.token_ids for streamed in streams] == WANTED
        await until(lambda: all(engine.pool.num_in_use == 0 for engine in self.engines))
        for engine in self.engines:
            engine.check()


@asynccontextmanager
async def pair(*configs: dict[str, Any]) -> AsyncIterator[Pair]:
    drafters = {
        f"r{i}": KnownText([*prompt_of(i), *WANTED[i]], MODEL.vocab_size).alternating
        for i in range(NUM_REQUESTS)
    }
    async with AsyncExitStack() as stack:
        verifiers = []
        for config in configs or ({}, {}):
            settings = fake_config(**{"kv_tokens": 4096, **config})
            verifiers.append(await stack.enter_async_context(serving(settings, fake_loader(MODEL))))
        candidates = await stack.enter_async_context(FakeCandidates(drafters))
        targets = [f"127.0.0.1:{verifier.port}" for verifier in verifiers]
        running = await stack.enter_async_context(
            running_scheduler(targets, candidates.target, rebalance=False)
        )
        pool = running.server.scheduler.pool
        await until(lambda: sum(w.is_serving for w in pool.workers) == 2)
        yield Pair(tuple(verifiers), running)


async def test_requests_move_with_their_blocks() -> None:
    async with pair() as both:
        tasks = both.begin()
        await both.drain_first()
        await both.check(tasks)
        assert both.moves.get(SHIPPED, 0) >= 1
        assert RECOMPUTED not in both.moves
        first, second = (engine.exchange for engine in both.engines)
        assert first.num_exported >= second.num_imported > 0


async def test_damaged_blocks_are_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    add = BlocksImport.add

    async def damaged(self: BlocksImport, blocks: KvBlocks) -> tuple[int, bool]:
        return await add(self, replace(blocks, data=bytes(len(blocks.data))))

    monkeypatch.setattr(BlocksImport, "add", damaged)
    async with pair() as both:
        tasks = both.begin()
        await both.drain_first()
        await both.check(tasks)
        assert SHIPPED not in both.moves
        assert both.moves[RECOMPUTED] >= 1
        assert both.engines[1].exchange.num_imported == 0


async def test_blocks_that_never_arrive_are_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stuck(self: BlocksImport, blocks: KvBlocks) -> tuple[int, bool]:
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for this")

    monkeypatch.setattr(BlocksImport, "add", stuck)
    monkeypatch.setattr(shipping, "TIMEOUT_S", 0.1)
    async with pair() as both:
        tasks = both.begin()
        await both.drain_first()
        await both.check(tasks)
        assert SHIPPED not in both.moves


@pytest.mark.parametrize("other", [{"block_size": 8}, {"prefix_cache_blocks": 0}])
async def test_only_verifiers_of_one_layout_exchange_blocks(other: dict[str, Any]) -> None:
    async with pair({}, other) as both:
        tasks = both.begin()
        await both.drain_first()
        await both.check(tasks)
        assert both.moves[RECOMPUTED] >= 1
        assert both.engines[0].exchange.num_exported == 0


async def test_a_request_without_the_prefix_cache_is_computed_anew() -> None:
    async with pair() as both:
        tasks = both.begin(use_prefix_cache=False)
        await both.drain_first()
        await both.check(tasks)
        assert both.moves[RECOMPUTED] >= 1
        assert both.engines[0].exchange.num_exported == 0


async def test_a_request_that_ends_while_its_blocks_travel_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = BlocksImport.add
    cancelled: list[asyncio.Task[Streamed]] = []

    async def slow(self: BlocksImport, blocks: KvBlocks) -> tuple[int, bool]:
        for task in cancelled:
            task.cancel()
        await asyncio.sleep(0.05)
        return await add(self, blocks)

    monkeypatch.setattr(BlocksImport, "add", slow)
    async with pair() as both:
        tasks = both.begin()
        cancelled.extend(tasks)
        await both.drain_first()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: all(engine.pool.num_in_use == 0 for engine in both.engines))
        status = both.running.server.scheduler.status
        assert status.num_running == status.num_waiting == 0
        assert both.moves == {}
