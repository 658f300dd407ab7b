"""A gateway that found the end in the text ends a request in good order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc import aio

from dspark.sampling import FinishReason, SamplingParams
from dspark.v1 import sampling_pb2
from dspark.v1 import scheduler_service_pb2 as pb
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import RunningScheduler, make_request, running_scheduler
from harness.waiting import until

ENDLESS = SamplingParams(temperature=0.0, max_tokens=2000, ignore_eos=True)
PROMPT = (1, 2, 3)


@pytest.fixture
async def verifier() -> AsyncIterator[FakeVerifier]:
    model = HashModel(max_model_len=4096)
    async with FakeVerifier(model=model, num_blocks=512, forward_s=lambda rows: 0.01) as fake:
        yield fake


@pytest.fixture
async def scheduler(verifier: FakeVerifier) -> AsyncIterator[RunningScheduler]:
    async with FakeCandidates() as candidates:
        async with running_scheduler(verifier.target, candidates.target, max_num_seqs=1) as running:
            yield running


async def _stop(scheduler: RunningScheduler, request_id: str) -> None:
    await scheduler.client.stub.StopGeneration(pb.StopGenerationRequest(request_id=request_id))


async def test_the_stream_completes_with_stop_and_its_counts(
    verifier: FakeVerifier, scheduler: RunningScheduler
) -> None:
    call = scheduler.client.stub.Generate(make_request("r", PROMPT, ENDLESS))
    events = [await call.read() for _ in range(3)]
    await _stop(scheduler, "r")
    async with asyncio.timeout(5):
        while not events[-1].HasField("complete"):
            events.append(await call.read())
        assert await call.read() is aio.EOF
    *chunks, last = events
    num_tokens = sum(len(event.chunk.token_ids) for event in chunks)
    assert last.complete.finish_reason == sampling_pb2.FINISH_REASON_STOP
    assert last.complete.usage.completion_tokens == num_tokens
    assert last.complete.speculation.rounds == len(chunks)
    assert last.complete.steps.verify_ms > 0
    assert scheduler.server.scheduler.status.totals.finished[FinishReason.STOP] == 1
    await until(lambda: not verifier.sequences)
    assert verifier.num_free_blocks == verifier.num_blocks


async def test_a_waiting_request_can_be_stopped(scheduler: RunningScheduler) -> None:
    running = scheduler.client.stub.Generate(make_request("running", PROMPT, ENDLESS))
    await running.read()
    waiting = asyncio.create_task(
        scheduler.client.generate(make_request("waiting", PROMPT, ENDLESS))
    )
    await until(lambda: scheduler.server.scheduler.status.num_waiting == 1)
    await _stop(scheduler, "waiting")
    streamed = await asyncio.wait_for(waiting, 5)
    assert (streamed.finish_reason, streamed.token_ids) == (FinishReason.STOP, [])
    assert await running.read() is not aio.EOF
    running.cancel()


async def test_a_request_that_is_not_live_is_not_found(scheduler: RunningScheduler) -> None:
    with pytest.raises(aio.AioRpcError) as caught:
        await _stop(scheduler, "nobody")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
