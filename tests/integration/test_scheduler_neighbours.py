"""The scheduler between the real engine and the real sources: what the fakes stand for holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dspark import rpc
from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.candidates.server import CandidatesServer
from dspark.sampling import SamplingParams, SpeculationParams
from dspark.step import VerifierInfo, VerifyCost
from dspark.v1.verifier_service_pb2_grpc import add_VerifierServiceServicer_to_server
from dspark.verifier.engine import Engine
from dspark.verifier.engine_thread import EngineThread
from dspark.verifier.servicer import VerifierServicer
from harness.fake_model import FakeModel
from harness.running_scheduler import Streamed, make_request, running_scheduler
from harness.verifier_engine import fake_engine, plain_decode
from harness.waiting import until

MODEL = FakeModel(vocab_size=6)
NUM_REQUESTS = 5
MAX_MODEL_LEN = 80
COSTS = ((1, 20.0), (16, 20.5), (64, 40.0))


def prompt_of(index: int) -> list[int]:
    # A shared beginning, so that prefixes hit.
    return [1, 2, 3, 4, 5, 0, 1, 2, *[index % 6] * (index + 1)]


def params_of(index: int) -> SamplingParams:
    return SamplingParams(temperature=(0.0, 0.7, 1.3)[index % 3], seed=index, max_tokens=24)


def info_of(engine: Engine) -> VerifierInfo:
    return VerifierInfo(
        model_id="fake",
        model_digest="fake",
        vocab_size=MODEL.vocab_size,
        max_model_len=MAX_MODEL_LEN,
        eos_token_ids=engine.limits.eos_token_ids,
        block_size=engine.block_size,
        num_blocks=engine.pool.num_blocks,
        max_step_rows=64,
        exactness="strict",
        kernel_class="fake",
        dtype="float32",
        device="cpu",
        verify_costs=tuple(VerifyCost(*cost) for cost in COSTS),
    )


@asynccontextmanager
async def real_verifier(num_blocks: int) -> AsyncIterator[tuple[str, Engine]]:
    engine, _ = fake_engine(model=MODEL, num_blocks=num_blocks, max_model_len=MAX_MODEL_LEN)
    thread = EngineThread()
    servicer = VerifierServicer(thread)
    servicer.set_engine(engine, info_of(engine))
    server = rpc.Server(["dspark.v1.VerifierService"])
    add_VerifierServiceServicer_to_server(servicer, server.grpc)
    port = await server.start("127.0.0.1:0")
    await server.set_ready(True)
    try:
        yield f"127.0.0.1:{port}", engine
    finally:
        await server.stop(0)
        thread.close()


@asynccontextmanager
async def real_candidates() -> AsyncIterator[tuple[str, CandidatesServer]]:
    config = CandidatesConfig(listen="127.0.0.1:0", propose_deadline_ms=2000.0, drain_s=0.1)
    server = CandidatesServer(Proposer(build_sources(config), config), config)
    port = await server.start()
    try:
        yield f"127.0.0.1:{port}", server
    finally:
        await server.stop()


@pytest.mark.parametrize("num_blocks", [12, 200])
@pytest.mark.parametrize("policy", ["fixed", "economic"])
async def test_real_neighbours_give_the_tokens_of_plain_decoding(
    policy: str, num_blocks: int
) -> None:
    async with (
        real_verifier(num_blocks) as (verifier, engine),
        real_candidates() as (
            candidates,
            worker,
        ),
    ):
        async with running_scheduler(
            verifier, candidates, policy=policy, max_num_batched_tokens=20
        ) as scheduler:

            async def run(index: int, round_: int, enabled: bool) -> Streamed:
                return await scheduler.client.generate(
                    make_request(
                        f"r{index}-{round_}",
                        prompt_of(index),
                        params_of(index),
                        SpeculationParams(enabled=enabled),
                    )
                )

            # The second round finds cached prefixes and what the first one taught the sources.
            for round_ in range(2):
                streams = await asyncio.gather(
                    *(run(index, round_, enabled=index != 0) for index in range(NUM_REQUESTS))
                )
                for index, streamed in enumerate(streams):
                    want, reason = plain_decode(MODEL, prompt_of(index), params_of(index))
                    assert streamed.token_ids == want and streamed.finish_reason is reason
            totals = scheduler.server.scheduler.totals
            await until(lambda: not len(worker.proposer.sequences))
        engine.check()
        assert len(engine.sequences) == 0
        assert engine.pool.num_available == num_blocks
    assert totals.speculation.accepted > 0 and totals.cached_tokens > 0
    assert (totals.num_preemptions > 0) is (num_blocks < 20)
    assert {"recycle", "suffix"} <= set(totals.speculation.sources)
