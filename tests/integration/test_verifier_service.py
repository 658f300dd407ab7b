"""The verifier over real sockets, on the fake model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from grpc import aio
from numpy.typing import NDArray

from dspark import rpc
from dspark.errors import ContextLength, InvalidArgument, NotReady, StaleStep
from dspark.sampling import SamplingParams
from dspark.step import SequenceRef, StepOutcome, StepPlan, VerifierInfo
from dspark.v1 import verifier_service_pb2 as pb
from dspark.v1 import verifier_service_pb2_grpc as pb_grpc
from dspark.verifier.config import VerifierConfig
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import LoadedModel, ModelRefused, Progress
from dspark.verifier.server import SERVICE_NAME, RunningVerifier, serve, serving
from dspark.wire.step import outcome_from_proto, plan_to_proto, verifier_info_from_proto
from harness.fake_model import FakeModel
from harness.scripted_drafters import KnownText
from harness.verifier_engine import Client, plain_decode
from harness.verifier_service import fake_config, fake_loader
from harness.waiting import until

MODEL = FakeModel()
PROMPT = [1, 2, 3, 4, 5, 6, 7]


class Caller:
    """A scheduler's view of one verifier."""

    def __init__(self, channel: aio.Channel, scheduler_id: str = "s1") -> None:
        self.channel = channel
        self.stub = pb_grpc.VerifierServiceStub(channel)
        self.scheduler_id = scheduler_id
        self.step_id = 0

    async def info(self) -> VerifierInfo:
        try:
            return verifier_info_from_proto(
                await self.stub.GetVerifierInfo(pb.GetVerifierInfoRequest())
            )
        except aio.AioRpcError as error:
            raise rpc.from_rpc_error(error, "verifier") from None

    async def step(self, *, step_id: int | None = None, **plan: object) -> StepOutcome:
        if step_id is None:
            self.step_id = step_id = self.step_id + 1
        request = plan_to_proto(StepPlan(self.scheduler_id, step_id, **plan))  # type: ignore[arg-type]
        try:
            return outcome_from_proto(await self.stub.Step(request))
        except aio.AioRpcError as error:
            raise rpc.from_rpc_error(error, "verifier") from None

    async def run(self, client: Client) -> None:
        await self.step(admissions=(client.admission(),))
        while client.finish_reason is None:
            outcome = await self.step(work=(client.work(),))
            client.apply(outcome.results[0])


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/v.sock"


@pytest.fixture
async def verifier(address: str) -> AsyncIterator[RunningVerifier]:
    async with serving(fake_config(address), fake_loader(MODEL)) as running:
        yield running
        running.engine.check()


@pytest.fixture
async def caller(verifier: RunningVerifier, address: str) -> AsyncIterator[Caller]:
    async with rpc.channel(address) as channel:
        yield Caller(channel)


async def test_info_describes_model_and_pool(caller: Caller, verifier: RunningVerifier) -> None:
    info = await caller.info()
    assert info == verifier.info
    assert (info.model_id, info.num_blocks, info.block_size) == ("fake", 256, 4)
    assert await rpc.is_ready(caller.channel, SERVICE_NAME)


async def test_requests_over_the_wire_equal_plain_decoding(caller: Caller) -> None:
    sampling = SamplingParams(temperature=1.0, top_p=0.9, seed=2**63 + 5, max_tokens=20)
    wanted = plain_decode(MODEL, PROMPT, sampling)
    drafter = KnownText(PROMPT + wanted[0], MODEL.vocab_size).random
    client = Client("a", PROMPT, sampling, drafter, max_pending_rows=3)
    await caller.run(client)
    assert (client.committed, client.finish_reason) == wanted


async def test_a_repeated_step_returns_the_stored_reply(caller: Caller) -> None:
    client = Client("a", PROMPT)
    await caller.step(admissions=(client.admission(),))
    first = await caller.step(work=(client.work(),))
    again = await caller.step(step_id=caller.step_id, work=(client.work(),))
    assert again == first
    client.apply(first.results[0])
    following = await caller.step(work=(client.work(),))
    client.apply(following.results[0])
    assert client.committed == plain_decode(MODEL, PROMPT, SamplingParams(0.0, max_tokens=2))[0]


async def test_an_older_step_is_stale_and_another_scheduler_counts_alone(caller: Caller) -> None:
    await caller.step(step_id=5)
    with pytest.raises(StaleStep):
        await caller.step(step_id=4)
    other = Caller(caller.channel, "s2")
    assert (await other.step(step_id=1)).step_id == 1


async def test_refused_arguments_name_the_field_and_leave_others_alone(
    caller: Caller, verifier: RunningVerifier
) -> None:
    good = Client("good", PROMPT)
    await caller.step(admissions=(good.admission(),))
    too_long = Client("long", [1] * 600)
    with pytest.raises(ContextLength) as raised:
        await caller.step(admissions=(too_long.admission(),), releases=(good.ref(),))
    assert raised.value.metadata["field"] == "admissions.token_ids"
    with pytest.raises(InvalidArgument):
        await caller.step(admissions=(Client("v", [99]).admission(),))
    outcome = await caller.step(work=(good.work(),))
    good.apply(outcome.results[0])
    assert len(good.committed) == 1


async def test_timing_fields_nest(caller: Caller) -> None:
    client = Client("a", PROMPT)
    outcome = await caller.step(admissions=(client.admission(),), work=(client.work(),))
    assert 0 < outcome.forward_ns < outcome.total_ns
    assert outcome.queue_ns + outcome.forward_ns <= outcome.total_ns
    assert outcome.num_rows == len(PROMPT)


class Gate:
    """A loader whose model blocks in ``forward`` until opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.num_forwards = 0

    def __call__(self, config: VerifierConfig, progress: Progress) -> LoadedModel:
        loaded = fake_loader(MODEL)(config, progress)
        forward = loaded.runner.forward

        def gated(batch: ForwardBatch) -> NDArray[np.float32]:
            self.entered.set()
            assert self.opened.wait(20)
            self.num_forwards += 1
            return forward(batch)

        loaded.runner.forward = gated  # type: ignore[method-assign]
        return loaded


async def test_a_repeat_of_a_running_step_awaits_it_and_a_cancelled_call_does_not_stop_it(
    address: str,
) -> None:
    gate = Gate()
    client = Client("a", PROMPT)
    async with serving(fake_config(address), gate), rpc.channel(address) as channel:
        caller = Caller(channel)
        await caller.step(admissions=(client.admission(),))
        first = asyncio.ensure_future(caller.step(work=(client.work(),)))
        await asyncio.to_thread(gate.entered.wait, 10)
        first.cancel()
        again = asyncio.ensure_future(caller.step(step_id=caller.step_id, work=(client.work(),)))
        gate.opened.set()
        client.apply((await again).results[0])
    assert gate.num_forwards == 1
    assert len(client.committed) == 1


async def test_a_stalled_step_turns_health_off_until_it_ends(address: str) -> None:
    gate = Gate()
    client = Client("a", PROMPT)
    config = fake_config(address, stall_s=0.1)
    async with serving(config, gate), rpc.channel(address) as channel:
        caller = Caller(channel)
        step = asyncio.ensure_future(
            caller.step(admissions=(client.admission(),), work=(client.work(),))
        )

        async def ready() -> bool:
            return await rpc.is_ready(channel, SERVICE_NAME)

        async def unready() -> bool:
            return not await ready()

        await until(unready)
        assert await rpc.is_ready(channel, "")
        gate.opened.set()
        client.apply((await step).results[0])
        await until(ready)


async def test_not_ready_while_loading_then_refused(address: str) -> None:
    release = threading.Event()

    def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
        progress("reading weights")
        assert release.wait(20)
        raise ModelRefused("no such architecture")

    lines: list[str] = []
    stop = asyncio.Event()
    running = asyncio.ensure_future(serve(fake_config(address), load, lines.append, stop))
    async with rpc.channel(address) as channel:
        await until(lambda: rpc.is_ready(channel, ""))
        with pytest.raises(NotReady, match="reading weights"):
            await Caller(channel).info()
        with pytest.raises(NotReady):
            await Caller(channel).step()
        assert not await rpc.is_ready(channel, SERVICE_NAME)
        release.set()
        with pytest.raises(ModelRefused):
            await running
    assert lines == ["reading weights"]


async def test_stop_finishes_the_running_step(address: str) -> None:
    gate = Gate()
    client = Client("a", PROMPT)
    stop = asyncio.Event()
    lines: list[str] = []
    running = asyncio.ensure_future(serve(fake_config(address), gate, lines.append, stop))
    async with rpc.channel(address) as channel:
        await until(lambda: rpc.is_ready(channel, SERVICE_NAME))
        caller = Caller(channel)
        step = asyncio.ensure_future(
            caller.step(admissions=(client.admission(),), work=(client.work(),))
        )
        await asyncio.to_thread(gate.entered.wait, 10)
        stop.set()

        async def draining() -> bool:
            return not await rpc.is_ready(channel, SERVICE_NAME)

        await until(draining)
        with pytest.raises(NotReady):
            await Caller(channel, "s2").step()
        gate.opened.set()
        client.apply((await step).results[0])
    await running
    assert len(client.committed) == 1


async def test_stop_while_loading_ends_at_once(address: str) -> None:
    release = threading.Event()

    def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
        release.wait(20)
        raise AssertionError("nobody waits for this")

    stop = asyncio.Event()
    running = asyncio.ensure_future(serve(fake_config(address), load, lambda line: None, stop))
    async with rpc.channel(address) as channel:
        await until(lambda: rpc.is_ready(channel, ""))
    stop.set()
    await asyncio.wait_for(running, 10)
    release.set()


async def test_a_failing_model_is_internal_and_turns_health_off(address: str) -> None:
    failing = True

    def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
        loaded = fake_loader(MODEL)(config, progress)
        forward = loaded.runner.forward

        def broken(batch: ForwardBatch) -> NDArray[np.float32]:
            if failing:
                raise RuntimeError("device lost")
            return forward(batch)

        loaded.runner.forward = broken  # type: ignore[method-assign]
        return loaded

    client = Client("a", PROMPT)
    config = fake_config(address, stall_s=0.2)
    async with serving(config, load) as verifier, rpc.channel(address) as channel:
        caller = Caller(channel)
        await caller.step(admissions=(client.admission(),))
        for _ in range(3):
            with pytest.raises(Exception, match="internal error"):
                await caller.step(work=(client.work(),))
        verifier.engine.check()

        async def unready() -> bool:
            return not await rpc.is_ready(channel, SERVICE_NAME)

        await until(unready)
        failing = False
        outcome = await caller.step(work=(client.work(),))
        client.apply(outcome.results[0])
        await until(lambda: rpc.is_ready(channel, SERVICE_NAME))


async def test_orphans_are_reclaimed_without_a_step(address: str) -> None:
    client = Client("a", PROMPT)
    config = fake_config(address, lease_s=0.2)
    async with serving(config, fake_loader(MODEL)) as verifier, rpc.channel(address) as channel:
        await Caller(channel).step(admissions=(client.admission(),), work=(client.work(),))
        assert len(verifier.engine.sequences) == 1

        await until(lambda: len(verifier.engine.sequences) == 0)
        assert verifier.engine.pool.num_in_use == 0


async def test_a_release_that_overtakes_its_admission_wins(caller: Caller) -> None:
    client = Client("a", PROMPT)
    await caller.step(releases=(SequenceRef("a", 0),))
    outcome = await caller.step(admissions=(client.admission(),), work=(client.work(),))
    assert outcome.results[0].status.name == "NOT_FOUND"


@pytest.mark.parametrize("ahead", [False, True])
async def test_what_followed_a_steps_rows_comes_with_the_next_result(
    address: str, ahead: bool
) -> None:
    client = Client("a", PROMPT, SamplingParams(0.0, max_tokens=4, ignore_eos=True))
    config = fake_config(address, compute_ahead="on" if ahead else "off")
    async with (
        serving(config, fake_loader(MODEL)) as verifier,
        rpc.channel(address) as channel,
    ):
        caller = Caller(channel)
        await caller.step(admissions=(client.admission(),))
        results = []
        for _ in range(3):
            outcome = await caller.step(work=(client.work(),), top_k=2, compute_ahead=True)
            client.apply(outcome.results[0])
            results.append(outcome.results[0])
        assert bool(verifier.engine.passes.num_used_rows) == ahead
    assert (results[0].row_token_ids, results[0].top_token_ids) == ((), ())
    for result, num_tokens in zip(results[1:], (0, 1), strict=True):
        tokens = [*PROMPT, *client.committed[:num_tokens]]
        likely = np.argsort(-MODEL.next_logits(tokens), kind="stable")[:2]
        assert result.row_token_ids == (tokens[-1],)
        assert result.top_token_ids == tuple(likely.tolist())


async def test_a_ranking_that_fails_costs_candidates_what_they_would_have_learnt(
    verifier: RunningVerifier, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("no ranks")

    monkeypatch.setattr(verifier.engine, "rank_successors", fail)
    sampling = SamplingParams(0.0, max_tokens=4, ignore_eos=True)
    client = Client("a", PROMPT, sampling)
    await caller.step(admissions=(client.admission(),))
    while client.finish_reason is None:
        outcome = await caller.step(work=(client.work(),), top_k=2)
        client.apply(outcome.results[0])
        assert outcome.results[0].row_token_ids == ()
    assert client.committed == plain_decode(MODEL, PROMPT, sampling)[0]
