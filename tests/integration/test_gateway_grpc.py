"""dspark.v1.InferenceService over a real socket, with health and reflection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from dspark import rpc
from dspark.errors import (
    ContextLength,
    DSparkError,
    InvalidArgument,
    MessageTooLarge,
    ModelNotFound,
    NotReady,
    QueueFull,
)
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from dspark.v1 import sampling_pb2
from harness.fake_scheduler import FakeScheduler, Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack

SERVICE = "dspark.v1.InferenceService"


@pytest.fixture
async def channel(stack: GatewayStack) -> AsyncIterator[aio.Channel]:
    async with rpc.channel(stack.grpc_target) as opened:
        yield opened


async def _generate(channel: aio.Channel, **fields: Any) -> list[pb.GenerateResponse]:
    call = pb_grpc.InferenceServiceStub(channel).Generate(pb.GenerateRequest(**fields))
    return [event async for event in call]


async def _refusal(channel: aio.Channel, **fields: Any) -> DSparkError:
    with pytest.raises(aio.AioRpcError) as caught:
        await _generate(channel, **fields)
    return rpc.from_rpc_error(caught.value, "gateway")


def _text(events: list[pb.GenerateResponse]) -> str:
    return "".join(event.chunk.text for event in events)


async def test_a_stream_is_started_chunks_complete(
    channel: aio.Channel, stack: GatewayStack
) -> None:
    stack.scheduler.script = Script(runs_of("Hello €", 3))
    sampling = sampling_pb2.SamplingParams(seed=9)
    events = await _generate(channel, text="hi", sampling=sampling, request_id="r1")
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["started", *["chunk"] * (len(events) - 2), "complete"]
    started, complete = events[0].started, events[-1].complete
    assert (started.request_id, started.model) == ("r1", MODEL)
    assert (started.prompt_tokens, started.seed) == (2, 9)
    assert _text(events) == "Hello €"
    assert bytes(i for event in events for i in event.chunk.token_ids) == "Hello €".encode()
    assert complete.finish_reason == sampling_pb2.FINISH_REASON_LENGTH
    assert complete.WhichOneof("stop_reason") is None
    assert complete.usage.completion_tokens == 9
    assert complete.speculation.accepted == sum(event.chunk.num_accepted for event in events)
    assert complete.steps.forward_ms == 3.0


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ({"text": "hi"}, b"hi"),
        ({"token_ids": pb.TokenIds(ids=[1, 2])}, b"\1\2"),
        ({"chat": pb.ChatPrompt(messages=[pb.ChatMessage(role="user", content="x")])}, None),
    ],
)
async def test_each_kind_of_prompt(
    channel: aio.Channel, stack: GatewayStack, prompt: dict[str, Any], ids: bytes | None
) -> None:
    await _generate(channel, **prompt)
    (request,) = stack.scheduler.requests
    if ids is None:
        expected = 128 - len(request.prompt_token_ids)
        assert request.prompt_token_ids[0] == 257
    else:
        expected = 16
        assert list(request.prompt_token_ids) == list(ids)
    assert request.sampling.max_tokens == expected


async def test_stop_reasons(channel: aio.Channel, stack: GatewayStack) -> None:
    stack.scheduler.script = Script(runs_of("one STOP two", 5), hang=True)
    events = await _generate(channel, text="hi", stop_strings=["STOP"])
    assert _text(events) == "one "
    assert events[-1].complete.stop_string == "STOP"
    assert events[-1].complete.usage.completion_tokens == 8
    stack.scheduler.script = Script([[*b"ab!", 0]])
    sampling = sampling_pb2.SamplingParams(stop_token_ids=[ord("!")])
    complete = (await _generate(channel, text="hi", sampling=sampling))[-1].complete
    assert complete.stop_token_id == ord("!")
    stack.scheduler.script = Script([[*b"ab", 256]])
    complete = (await _generate(channel, text="hi"))[-1].complete
    assert complete.finish_reason == sampling_pb2.FINISH_REASON_STOP
    assert complete.WhichOneof("stop_reason") is None


async def test_refusals_carry_their_reason(channel: aio.Channel, stack: GatewayStack) -> None:
    hot = sampling_pb2.SamplingParams(temperature=float("nan"))
    cases: list[tuple[dict[str, Any], type[DSparkError], str]] = [
        ({}, InvalidArgument, "prompt"),
        ({"text": ""}, InvalidArgument, "text"),
        ({"token_ids": pb.TokenIds()}, InvalidArgument, "token_ids"),
        ({"token_ids": pb.TokenIds(ids=[2**32 - 1])}, InvalidArgument, "token_ids"),
        ({"chat": pb.ChatPrompt()}, InvalidArgument, "chat.messages"),
        ({"text": "x", "sampling": hot}, InvalidArgument, "temperature"),
        ({"text": "x", "request_id": "a b"}, InvalidArgument, "request_id"),
        ({"text": "x", "stop_strings": [""]}, InvalidArgument, "stop"),
        ({"text": "x" * 128}, ContextLength, "text"),
    ]
    for fields, kind, field in cases:
        error = await _refusal(channel, **fields)
        assert type(error) is kind
        assert error.metadata["field"] == field
    assert type(await _refusal(channel, text="x", model="other")) is ModelNotFound
    assert stack.scheduler.requests == []


async def test_a_request_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    async with gateway_stack(tmp_path, max_body_bytes=1000) as stack:
        async with rpc.channel(stack.grpc_target) as channel:
            error = await _refusal(channel, text="x" * 1000)
            assert type(error) is MessageTooLarge
            assert "1000 bytes" in error.message
            assert _text(await _generate(channel, text="x")) == "Hello, world."


async def test_a_field_from_a_newer_contract_is_refused(
    channel: aio.Channel, stack: GatewayStack
) -> None:
    # Field 99, wire type 0, value 1.
    for request in (
        pb.GenerateRequest(text="x"),
        pb.GenerateRequest(text="x", sampling=sampling_pb2.SamplingParams(seed=1)),
    ):
        target = request.sampling if request.HasField("sampling") else request
        target.MergeFromString(b"\x98\x06\x01")
        with pytest.raises(aio.AioRpcError) as caught:
            async for _ in pb_grpc.InferenceServiceStub(channel).Generate(request):
                pass
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "#99" in str(caught.value.details())
    assert stack.scheduler.requests == []


async def test_errors_of_the_scheduler_pass_through(
    channel: aio.Channel, stack: GatewayStack
) -> None:
    stack.scheduler.script = Script(error=QueueFull("full"))
    assert type(await _refusal(channel, text="x")) is QueueFull
    stack.scheduler.script = Script(runs_of("ab"), error=QueueFull("full"))
    assert type(await _refusal(channel, text="x")) is QueueFull


async def test_models(channel: aio.Channel) -> None:
    reply = await pb_grpc.InferenceServiceStub(channel).ListModels(pb.ListModelsRequest())
    (card,) = reply.models
    assert (card.id, card.max_model_len, card.exactness) == (MODEL, 128, "strict")
    assert list(card.sources) == ["recycle", "suffix", "retrieval"]


async def test_health_follows_the_scheduler(tmp_path: Path) -> None:
    scheduler = FakeScheduler(info_error=NotReady("loading"))
    async with gateway_stack(tmp_path, scheduler) as stack:
        async with rpc.channel(stack.grpc_target) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(service=SERVICE)
            )
            statuses = aiter(watch)
            assert (await anext(statuses)).status == health_pb2.HealthCheckResponse.NOT_SERVING
            assert await rpc.is_ready(channel, "")
            scheduler.info_error = None
            while (await anext(statuses)).status != health_pb2.HealthCheckResponse.SERVING:
                pass
            assert await rpc.is_ready(channel, SERVICE)
            watch.cancel()


async def test_a_client_that_knows_only_reflection(channel: aio.Channel) -> None:
    pool = await _reflected_pool(channel, SERVICE)
    method = pool.FindServiceByName(SERVICE).FindMethodByName("Generate")
    request = message_factory.GetMessageClass(method.input_type)()
    json_format.ParseDict({"text": "hi", "sampling": {"maxTokens": 5}}, request)
    response_type = message_factory.GetMessageClass(method.output_type)
    call = channel.unary_stream(
        f"/{SERVICE}/Generate",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=response_type.FromString,
    )
    events = [json_format.MessageToDict(event) async for event in call(request)]
    assert "".join(event.get("chunk", {}).get("text", "") for event in events) == "Hello"
    assert events[-1]["complete"]["finishReason"] == "FINISH_REASON_LENGTH"


async def _reflected_pool(channel: aio.Channel, symbol: str) -> descriptor_pool.DescriptorPool:
    """Descriptors of a service and all its imports, asked from the server one by one."""
    pool = descriptor_pool.DescriptorPool()
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo()

    async def ask(**question: str) -> reflection_pb2.ServerReflectionResponse:
        await call.write(reflection_pb2.ServerReflectionRequest(**question))
        return await call.read()

    listing = await ask(list_services="")
    names = {service.name for service in listing.list_services_response.service}
    assert {symbol, "grpc.health.v1.Health"} <= names
    found = await ask(file_containing_symbol=symbol)
    waiting = list(found.file_descriptor_response.file_descriptor_proto)
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    while waiting:
        file = descriptor_pb2.FileDescriptorProto.FromString(waiting.pop())
        files[file.name] = file
        for name in set(file.dependency) - set(files):
            reply = await ask(file_by_filename=name)
            waiting += reply.file_descriptor_response.file_descriptor_proto
    await call.done_writing()

    def add(name: str) -> None:
        for dependency in files[name].dependency:
            add(dependency)
        pool.Add(files[name])

    for name in files:
        add(name)
    return pool
