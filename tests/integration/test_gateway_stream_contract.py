"""However a request ends, its stream ends by contract, on every front and for any choices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from grpc import aio

from dspark import rpc
from dspark.errors import InternalError
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from dspark.v1 import sampling_pb2
from harness.fake_scheduler import ERROR, STOP, Script, runs_of
from harness.gateway_stack import GatewayStack, sse_events

TEXT, END = "one two", 256


@dataclass(frozen=True)
class Ending:
    """A way to end; ``text`` comes before it, and ``reason`` is None where it is a failure."""

    text: str
    reason: str | None
    fields: dict[str, Any] = field(default_factory=dict)
    script: dict[str, Any] = field(default_factory=dict)
    tail: Sequence[int] = ()


ENDINGS = {
    "end token": Ending(TEXT, "stop", tail=(END,)),
    "length": Ending("one t", "length", {"max_tokens": 5}),
    "stop token": Ending("one t", "stop", {"stop_token_ids": [ord("w")]}),
    "stop string": Ending("one ", "stop", {"stop": ["never", "two"]}, {"hang": True}),
    "stop string at the limit": Ending("one ", "stop", {"stop": "two", "max_tokens": 7}),
    "no tokens": Ending("", "stop", script={"runs": (), "finish_reason": STOP}),
    "failure": Ending(TEXT, None, script={"error": InternalError("it fails")}),
    "failed end": Ending(TEXT, None, script={"finish_reason": ERROR}),
}
endings = pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)


def play(stack: GatewayStack, ending: Ending, size: int) -> None:
    runs = [*runs_of(TEXT, size), *([list(ending.tail)] if ending.tail else [])]
    stack.scheduler.script = Script(**{"runs": runs, **ending.script})


def content(choice: dict[str, Any]) -> str:
    text: str = choice["text"] if "text" in choice else choice["delta"].get("content", "")
    return text


def check_events(events: list[Any], ending: Ending, n: int, include_usage: bool) -> None:
    assert events.count("[DONE]") == 1 and events.pop() == "[DONE]"
    if ending.reason is None:
        assert events.pop()["error"]["code"] == "internal"
    elif include_usage:
        usage = events.pop()
        assert usage["choices"] == []
        assert usage["usage"]["completion_tokens"] % n == 0
    assert all(len(event["choices"]) == 1 for event in events)
    assert len({event["id"] for event in events}) == 1
    for index in range(n):
        own = [e["choices"][0] for e in events if e["choices"][0]["index"] == index]
        reasons = [choice["finish_reason"] for choice in own]
        if ending.reason is None:
            assert not any(reasons)
            assert TEXT.startswith("".join(map(content, own)))
        else:
            assert reasons == [None] * (len(own) - 1) + [ending.reason]
            assert "".join(map(content, own)) == ending.text


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("surface", ["complete", "chat"])
@endings
async def test_events_end_by_contract(
    stack: GatewayStack, ending: Ending, surface: str, n: int
) -> None:
    for size in (1, 3, 20):
        play(stack, ending, size)
        for include_usage in (False, True):
            options = {"stream_options": {"include_usage": True}} if include_usage else {}
            ask = getattr(stack, surface)
            response = await ask(stream=True, n=n, **options, **ending.fields)
            assert response.status_code == 200
            check_events(sse_events(response.text), ending, n, include_usage)
    assert stack.server.gateway.lifecycle.num_running == 0


@pytest.fixture
async def stub(stack: GatewayStack) -> AsyncIterator[pb_grpc.InferenceServiceStub]:
    async with rpc.channel(stack.grpc_target) as channel:
        yield pb_grpc.InferenceServiceStub(channel)


def message_of(ending: Ending, n: int) -> pb.GenerateRequest:
    fields = dict(ending.fields)
    stops = fields.pop("stop", [])
    sampling = sampling_pb2.SamplingParams(**fields)
    stops = [stops] if isinstance(stops, str) else stops
    return pb.GenerateRequest(text="hi", n=n, sampling=sampling, stop_strings=stops)


def choice_of(event: pb.GenerateResponse) -> int:
    kind = event.WhichOneof("event")
    assert kind is not None
    index: int = getattr(event, kind).index
    return index


@pytest.mark.parametrize("n", [1, 3])
@endings
async def test_calls_end_by_contract(
    stack: GatewayStack, stub: pb_grpc.InferenceServiceStub, ending: Ending, n: int
) -> None:
    for size in (1, 3, 20):
        play(stack, ending, size)
        events: list[pb.GenerateResponse] = []
        failure = None
        try:
            async for event in stub.Generate(message_of(ending, n)):
                events.append(event)
        except aio.AioRpcError as error:
            failure = rpc.from_rpc_error(error, "gateway")
        assert isinstance(failure, InternalError) is (ending.reason is None)
        for index in range(n):
            own = [event for event in events if choice_of(event) == index]
            kinds = [event.WhichOneof("event") for event in own]
            assert kinds[:1] == ["started"] * bool(own)
            assert kinds.count("started") <= 1
            text = "".join(event.chunk.text for event in own)
            if ending.reason is None:
                assert "complete" not in kinds and TEXT.startswith(text)
            else:
                assert kinds.count("complete") == 1 and kinds[-1] == "complete"
                assert text == ending.text
                num_tokens = sum(len(event.chunk.token_ids) for event in own)
                assert own[-1].complete.usage.completion_tokens == num_tokens
