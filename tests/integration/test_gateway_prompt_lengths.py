"""Prompts of no length and of too much: refused with numbers on every front, before any queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from grpc import aio

from dspark import rpc
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from harness.fake_scheduler import Script, runs_of
from harness.gateway_stack import GatewayStack

LIMIT = 128
# What a chat has beside its only message: the marks of the turns and the roles.
FRAME = len(["<|turn|>", *"user:", "<|end|>", "<|turn|>", *"assistant:"])

# From a text's length to (reason, field, limit, given), or the number of generated tokens.
Answer = tuple[str, str | None, str, str] | int
Ask = Callable[[GatewayStack, int], Awaitable[Answer]]


def of_http(response: Any, *usage: str) -> Answer:
    body = response.json()
    if response.status_code == 200:
        num_tokens: int = body["usage"][usage[0]]
        return num_tokens
    assert response.status_code == 400
    error = body["error"]
    words = error["message"].replace(":", " ").replace(",", " ").split()
    numbers = [word for word in words if word.isdigit()]
    return error["code"], error["param"], *(numbers[1::-1] if len(numbers) > 1 else ("", ""))


async def completion(stack: GatewayStack, size: int) -> Answer:
    return of_http(await stack.complete(prompt="x" * size), "completion_tokens")


async def completion_ids(stack: GatewayStack, size: int) -> Answer:
    return of_http(await stack.complete(prompt=[7] * size), "completion_tokens")


async def chat(stack: GatewayStack, size: int) -> Answer:
    messages = [{"role": "user", "content": "x" * (size - FRAME)}] if size else []
    return of_http(await stack.chat(messages=messages), "completion_tokens")


async def response(stack: GatewayStack, size: int) -> Answer:
    turns = [{"role": "user", "content": "x" * (size - FRAME)}] if size else []
    reply = await stack.client.post("/v1/responses", json={"input": turns})
    return of_http(reply, "output_tokens")


async def call(stack: GatewayStack, request: pb.GenerateRequest) -> Answer:
    async with rpc.channel(stack.grpc_target) as channel:
        try:
            events = [e async for e in pb_grpc.InferenceServiceStub(channel).Generate(request)]
        except aio.AioRpcError as failure:
            error = rpc.from_rpc_error(failure, "gateway")
            told = error.metadata
            code = "context_length_exceeded" if "limit" in told else "invalid_argument"
            # It names what fits; HTTP says so in words.
            limit = str(int(told["limit"]) - 1) if "limit" in told else ""
            return code, told["field"], limit, told.get("given", "")
    num_tokens: int = events[-1].complete.usage.completion_tokens
    return num_tokens


async def grpc_text(stack: GatewayStack, size: int) -> Answer:
    return await call(stack, pb.GenerateRequest(text="x" * size))


async def grpc_ids(stack: GatewayStack, size: int) -> Answer:
    return await call(stack, pb.GenerateRequest(token_ids=pb.TokenIds(ids=[7] * size)))


async def grpc_chat(stack: GatewayStack, size: int) -> Answer:
    message = pb.ChatMessage(role="user", content="x" * (size - FRAME))
    chat = pb.ChatPrompt(messages=[message] if size else [])
    return await call(stack, pb.GenerateRequest(chat=chat))


FRONTS: dict[Ask, str] = {
    completion: "prompt",
    completion_ids: "prompt",
    chat: "messages",
    response: "input",
    grpc_text: "text",
    grpc_ids: "token_ids",
    grpc_chat: "chat.messages",
}
fronts = pytest.mark.parametrize("ask", FRONTS, ids=lambda ask: ask.__name__)


@fronts
async def test_nothing_is_refused_by_name(stack: GatewayStack, ask: Ask) -> None:
    answer = await ask(stack, 0)
    assert isinstance(answer, tuple)
    assert answer[:2] == ("invalid_argument", FRONTS[ask])
    assert stack.scheduler.requests == []


@fronts
async def test_what_does_not_fit_is_refused_with_numbers_and_the_next_is_served(
    stack: GatewayStack, ask: Ask
) -> None:
    stack.scheduler.script = Script(runs_of("yes"), repeat=True)
    for size in (LIMIT, LIMIT + 1, 10 * LIMIT):
        answer = await ask(stack, size)
        wanted = ("context_length_exceeded", FRONTS[ask], str(LIMIT - 1), str(size))
        # A long text is refused before its tokens are known, by the least that it can have.
        assert answer[:3] == wanted[:3] and int(answer[3]) <= size  # type: ignore[index]
        assert int(answer[3]) >= LIMIT  # type: ignore[index]
    assert stack.scheduler.requests == []
    assert await ask(stack, LIMIT - 1) == 1
    assert len(stack.scheduler.requests) == 1
