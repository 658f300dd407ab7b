"""Several candidates services: each worker asks the best one, and another when that is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from dspark.sampling import SamplingParams
from dspark.scheduler import candidates_client, candidates_fleet
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.server import SchedulerServer
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import SchedulerClient, Streamed, make_request
from harness.scripted_drafters import KnownText
from harness.waiting import until

MODEL = HashModel()
PROMPT = (1, 2, 3)
PARAMS = SamplingParams(temperature=0.9, seed=3, max_tokens=60, ignore_eos=True)
WANTED = MODEL.generate(PROMPT, PARAMS).token_ids
DRAFTER = KnownText([*PROMPT, *WANTED], MODEL.vocab_size).alternating


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_fleet, "TICK_S", 0.02)


@dataclass
class Choice:
    """A scheduler with two candidates services."""

    near: FakeCandidates
    far: FakeCandidates
    server: SchedulerServer
    client: SchedulerClient

    async def generate(self, request_id: str) -> Streamed:
        streamed = await self.client.generate(make_request(request_id, PROMPT, PARAMS))
        assert tuple(streamed.token_ids) == WANTED
        return streamed

    @property
    def asked(self) -> list[str | None]:
        """The services that the workers' links ask."""
        fleet = self.server.fleet
        assert fleet is not None
        links = (worker.candidates for worker in self.server.scheduler.pool.workers)
        return [fleet.service_of(link) for link in links if link is not None]


@asynccontextmanager
async def choice(
    monkeypatch: pytest.MonkeyPatch, num_verifiers: int = 1, *, both_near: bool = False
) -> AsyncIterator[Choice]:
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(FakeCandidates(DRAFTER))
        far = await stack.enter_async_context(FakeCandidates(DRAFTER))
        verifiers = [
            await stack.enter_async_context(FakeVerifier(forward_s=lambda rows: 0.004))
            for _ in range(num_verifiers)
        ]
        nearby = {near.target, far.target} if both_near else {near.target}
        monkeypatch.setattr(candidates_fleet, "_near_this_host", nearby.__contains__)
        settings: dict[str, Any] = {"propose_deadline_ms": 300.0, "policy": "fixed"}
        settings |= {"breaker_failures": 2, "breaker_open_s": 0.5}
        config = SchedulerConfig(
            tuple(v.target for v in verifiers),
            "127.0.0.1:0",
            (far.target, near.target),
            **settings,
        )
        server = SchedulerServer(config)
        client = SchedulerClient(f"127.0.0.1:{await server.start()}")
        try:
            workers = server.scheduler.pool
            await until(lambda: len(workers.workers) == num_verifiers)
            await until(lambda: all(w.is_serving and w.known_sources for w in workers.workers))
            yield Choice(near, far, server, client)
        finally:
            await client.channel.close()
            await server.stop()


async def test_the_near_service_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with choice(monkeypatch) as both:
        streamed = await both.generate("r")
        assert streamed.num_accepted > 0
        assert both.near.num_proposes and not both.far.num_proposes


async def test_workers_spread_over_near_services(monkeypatch: pytest.MonkeyPatch) -> None:
    async with choice(monkeypatch, 2, both_near=True) as both:
        assert sorted(map(str, both.asked)) == sorted([both.near.target, both.far.target])


async def test_another_service_is_asked_when_one_is_lost_and_it_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with choice(monkeypatch) as both:
        await both.generate("first")
        both.near.is_down = True
        await both.generate("second")
        assert both.far.num_proposes > 0
        both.near.is_down = False
        before = both.near.num_proposes
        await until(lambda: both.asked == [both.near.target])
        streamed = await both.generate("fourth")
        assert streamed.num_accepted > 0
        assert both.near.num_proposes > before
        await until(lambda: not both.far.sequences)


async def test_a_service_that_no_address_names_any_more_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()

    async def follow(first: tuple[str, ...]) -> AsyncIterator[tuple[str, ...]]:
        yield first
        while True:
            yield await names.get()

    monkeypatch.setattr(candidates_client, "watch_addresses", follow)
    async with choice(monkeypatch) as both:
        await both.generate("first")
        await until(lambda: both.asked == [both.near.target])
        names.put_nowait((both.far.target,))
        await until(lambda: both.asked == [both.far.target])
        assert (await both.generate("second")).num_accepted > 0
        assert both.far.num_proposes > 0
