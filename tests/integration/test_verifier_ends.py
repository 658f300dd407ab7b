"""A verifier that is told to stop says so first, and its requests go elsewhere before it ends."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dspark import rpc
from dspark.sampling import SamplingParams
from dspark.scheduler import balancer
from dspark.scheduler.moves import MoveReason
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.verifier.server import serve, serving
from harness.fake_model import FakeModel
from harness.running_scheduler import make_request, running_scheduler
from harness.verifier_engine import plain_decode
from harness.verifier_service import fake_config, fake_loader
from harness.waiting import until

MODEL = FakeModel()
PROMPT = tuple(range(12))
NUM_REQUESTS = 4


def params_of(index: int) -> SamplingParams:
    return SamplingParams(temperature=0.8, seed=index, max_tokens=150, ignore_eos=True)


async def test_streams_go_on_and_no_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balancer, "TICK_S", 0.02)
    stop = asyncio.Event()
    ending = f"unix:{tmp_path}/ending.sock"
    config = fake_config(ending, kv_tokens=4096)
    run = asyncio.ensure_future(serve(config, fake_loader(MODEL), lambda line: None, stop))
    async with AsyncExitStack() as stack:
        heir_config = fake_config(f"unix:{tmp_path}/heir.sock", kv_tokens=4096)
        heir = await stack.enter_async_context(serving(heir_config, fake_loader(MODEL)))
        targets = (ending, heir_config.listen)
        scheduler = await stack.enter_async_context(running_scheduler(targets, rebalance=False))
        pool = scheduler.server.scheduler.pool
        await until(lambda: all(worker.is_serving for worker in pool.workers))
        tasks = [
            asyncio.create_task(
                scheduler.client.generate(make_request(f"r{i}", PROMPT, params_of(i)))
            )
            for i in range(NUM_REQUESTS)
        ]
        first = pool.workers[0]
        await until(lambda: any(r.num_generated_tokens > 3 for r in first.live))
        stop.set()
        await asyncio.wait_for(run, 20)
        async with asyncio.timeout(60):
            streams = await asyncio.gather(*tasks)
        for index, streamed in enumerate(streams):
            assert streamed.token_ids == plain_decode(MODEL, PROMPT, params_of(index))[0]
        moves = scheduler.server.scheduler.books.moves
        assert {reason for reason, _ in moves} == {MoveReason.DRAIN}
        assert scheduler.server.scheduler.totals.num_discarded_tokens == 0
        assert first.steps.num_losses == first.steps.num_failures == 0
        await until(lambda: heir.engine.pool.num_in_use == 0)


async def test_one_that_nobody_uses_ends_at_once() -> None:
    config = fake_config()
    async with asyncio.timeout(5):
        async with serving(config, fake_loader(MODEL)) as verifier:
            async with rpc.channel(f"127.0.0.1:{verifier.port}") as channel:
                stub = pb_grpc.VerifierServiceStub(channel)
                info = await stub.GetVerifierInfo(pb.GetVerifierInfoRequest())
                assert info.instance_id and not info.is_ending
