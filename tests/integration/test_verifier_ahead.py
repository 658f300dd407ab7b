"""A verifier that goes on computing after its reply, over a real socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dspark import rpc
from dspark.step import StepOutcome, StepPlan
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.verifier.config import VerifierConfig
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import LoadedModel, Progress
from dspark.verifier.server import RunningVerifier, serving
from dspark.wire.step import outcome_from_proto, plan_to_proto
from harness.fake_model import FakeModel
from harness.verifier_engine import GREEDY, Client, plain_decode
from harness.verifier_service import fake_config, fake_loader
from harness.waiting import until

MODEL = FakeModel()
PROMPT = [1, 2, 3, 4, 5, 6, 7]


class GatedModel:
    """A loader whose model waits in each pass until ``opened``, and fails in ``broken_pass``."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.opened.set()
        self.broken_pass = 0
        self.num_begun = 0

    def __call__(self, config: VerifierConfig, progress: Progress) -> LoadedModel:
        loaded = fake_loader(MODEL)(config, progress)
        forward = loaded.runner.forward

        def gated(batch: ForwardBatch) -> NDArray[np.float32]:
            self.num_begun += 1
            number = self.num_begun
            assert self.opened.wait(20)
            if number == self.broken_pass:
                raise RuntimeError("device lost")
            return forward(batch)

        loaded.runner.forward = gated  # type: ignore[method-assign]
        return loaded


class Steps:
    """Steps of one client, each saying that a plain one follows."""

    def __init__(self, stub: pb_grpc.VerifierServiceStub) -> None:
        self._stub = stub
        self._step_id = 0
        self.client = Client("a", PROMPT)

    async def admit(self) -> None:
        await self._step(StepPlan("s", self._next_id(), admissions=(self.client.admission(),)))

    async def decode(self) -> StepOutcome:
        plan = StepPlan("s", self._next_id(), work=(self.client.work(),), compute_ahead=True)
        outcome = await self._step(plan)
        self.client.apply(outcome.results[0])
        return outcome

    async def release(self) -> StepOutcome:
        return await self._step(StepPlan("s", self._next_id(), releases=(self.client.ref(),)))

    async def _step(self, plan: StepPlan) -> StepOutcome:
        message: pb.StepResponse = await self._stub.Step(plan_to_proto(plan))
        return outcome_from_proto(message)

    def _next_id(self) -> int:
        self._step_id += 1
        return self._step_id


@pytest.fixture
def model() -> GatedModel:
    return GatedModel()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/v.sock"


@pytest.fixture
async def verifier(address: str, model: GatedModel) -> AsyncIterator[RunningVerifier]:
    async with serving(fake_config(address, compute_ahead="on"), model) as running:
        yield running
        model.opened.set()


@pytest.fixture
async def steps(verifier: RunningVerifier, address: str) -> AsyncIterator[Steps]:
    async with rpc.channel(address) as channel:
        steps = Steps(pb_grpc.VerifierServiceStub(channel))
        await steps.admit()
        yield steps


def is_right(client: Client) -> bool:
    wanted = plain_decode(MODEL, PROMPT, GREEDY)[0]
    return client.committed == wanted[: len(client.committed)]


async def test_the_next_pass_is_done_before_it_is_asked_for(
    steps: Steps, model: GatedModel, verifier: RunningVerifier
) -> None:
    assert verifier.info.computes_ahead
    for step in range(1, 6):
        outcome = await steps.decode()
        assert outcome.num_ahead_rows == (step > 1)
        await until(lambda: model.num_begun == 1 + step)  # noqa: B023
    assert 0 < outcome.ahead_ns <= outcome.forward_ns
    assert is_right(steps.client)


async def test_a_reply_does_not_wait_for_what_follows_it(steps: Steps, model: GatedModel) -> None:
    await steps.decode()
    await until(lambda: model.num_begun == 2)
    model.opened.clear()
    outcome = await asyncio.wait_for(steps.decode(), 10)
    assert outcome.num_ahead_rows == 1
    await until(lambda: model.num_begun == 3)
    waiting = asyncio.ensure_future(steps.decode())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    model.opened.set()
    assert (await waiting).queue_ns > 10e6
    assert is_right(steps.client)


async def test_a_release_frees_all_although_a_pass_was_ahead(
    steps: Steps, verifier: RunningVerifier
) -> None:
    await steps.decode()
    outcome = await steps.release()
    assert outcome.num_free_blocks == verifier.engine.pool.num_blocks
    verifier.engine.check()
    assert verifier.engine.pool.num_in_use == 0


async def test_a_pass_that_fails_ahead_is_computed_again(steps: Steps, model: GatedModel) -> None:
    # The first step's own pass, the one after it, and the one after that, which fails.
    model.broken_pass = 3
    ahead = [(await steps.decode()).num_ahead_rows for _ in range(4)]
    assert ahead == [0, 1, 0, 1]
    assert is_right(steps.client)


async def test_the_default_on_a_cpu_is_that_each_step_computes_its_own(
    address: str, model: GatedModel
) -> None:
    async with serving(fake_config(address), model) as verifier, rpc.channel(address) as channel:
        assert not verifier.info.computes_ahead
        steps = Steps(pb_grpc.VerifierServiceStub(channel))
        await steps.admit()
        for _ in range(3):
            assert (await steps.decode()).num_ahead_rows == 0
        assert model.num_begun == 3


async def test_a_shutdown_waits_for_the_pass(address: str, model: GatedModel) -> None:
    async with serving(fake_config(address, compute_ahead="on"), model) as verifier:
        async with rpc.channel(address) as channel:
            steps = Steps(pb_grpc.VerifierServiceStub(channel))
            await steps.admit()
            await steps.decode()
    verifier.engine.check()
    assert model.num_begun == 2
