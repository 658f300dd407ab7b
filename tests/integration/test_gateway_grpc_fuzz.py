"""Random and broken messages at the gRPC surface: each is answered, and nothing stays behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message
from grpc import aio

from dspark import rpc
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import sampling_pb2
from harness.fake_model import FakeModel
from harness.traced_stack import TracedStack, traced_stack
from harness.verifier_service import fake_loader

SERVICE = "dspark.v1.InferenceService"
NUM_ROUNDS = 60
ANSWERS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
WHOLE: dict[str, Message] = {
    "Generate": pb.GenerateRequest(
        text="a prompt",
        stop_strings=["x", "yz"],
        n=2,
        sampling=sampling_pb2.SamplingParams(max_tokens=9, temperature=0.7, seed=3, top_k=5),
        speculation=sampling_pb2.SpeculationParams(max_draft_tokens=3),
        cache_salt="salt",
        priority=-3,
    ),
    "Tokenize": pb.TokenizeRequest(
        chat=pb.ChatPrompt(messages=[pb.ChatMessage(role="user", content="né")])
    ),
    "Detokenize": pb.DetokenizeRequest(token_ids=[97, 256, 195, 169]),
    "ListModels": pb.ListModelsRequest(),
    "GetStatus": pb.GetStatusRequest(),
}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[TracedStack]:
    async with traced_stack(tmp_path, fake_loader(FakeModel(vocab_size=258)), {}) as running:
        yield running


def broken(whole: bytes, dice: random.Random) -> Iterator[bytes]:
    """The message cut, with bytes changed, twice over, and noise in its place."""
    yield whole[: dice.randrange(len(whole) + 1)]
    changed = bytearray(whole)
    for _ in range(dice.randint(1, 4) if whole else 0):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    yield bytes(changed)
    yield whole + whole[dice.randrange(len(whole) + 1) :]
    yield dice.randbytes(dice.randrange(64))


async def status_of(channel: aio.Channel, method: str, message: bytes) -> grpc.StatusCode:
    """How the call ends; its answers are read to their end."""
    path = f"/{SERVICE}/{method}"
    try:
        if method == "Generate":
            async for _ in channel.unary_stream(path)(message, timeout=20):
                pass
        else:
            await channel.unary_unary(path)(message, timeout=20)
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def check_nothing_is_left(stack: TracedStack) -> None:
    """No block is in use, and neither gateway nor scheduler still has a request."""
    await stack.stack.check_idle()
    async with asyncio.timeout(5):
        while stack.server.gateway.lifecycle.num_running:
            await asyncio.sleep(0.02)
    status = await stack.stack.client.status()
    assert (status.num_running, status.num_waiting) == (0, 0)


@pytest.mark.parametrize("method", WHOLE)
async def test_each_message_is_answered(stack: TracedStack, method: str) -> None:
    dice = random.Random(method)
    whole = WHOLE[method].SerializeToString()
    messages = [m for _ in range(NUM_ROUNDS) for m in broken(whole, dice)]
    async with rpc.channel(stack.grpc_target) as channel:
        assert await status_of(channel, method, whole) is grpc.StatusCode.OK
        seen = set()
        for start in range(0, len(messages), 16):
            batch = messages[start : start + 16]
            codes = await asyncio.gather(*(status_of(channel, method, m) for m in batch))
            assert set(codes) <= ANSWERS, list(zip(codes, batch, strict=True))
            seen |= set(codes)
        assert grpc.StatusCode.INVALID_ARGUMENT in seen
        assert await status_of(channel, method, whole) is grpc.StatusCode.OK
    await check_nothing_is_left(stack)


async def test_calls_that_end_in_the_middle_leave_nothing(stack: TracedStack) -> None:
    request = pb.GenerateRequest(text="a prompt", n=3)
    request.sampling.max_tokens = 300
    request.sampling.ignore_eos = True
    dice = random.Random(1)
    async with rpc.channel(stack.grpc_target) as channel:
        for _ in range(20):
            call = channel.unary_stream(f"/{SERVICE}/Generate")(request.SerializeToString())
            for _ in range(dice.randrange(8)):
                await call.read()
            call.cancel()
    await check_nothing_is_left(stack)
