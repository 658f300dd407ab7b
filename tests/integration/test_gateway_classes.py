"""Class and tenant of a request, from HTTP, gRPC and the SDK to the scheduler; and refusals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from dspark import rpc
from dspark.client import AsyncClient, RequestClass
from dspark.errors import InvalidArgument, Overloaded, QueueFull
from dspark.gateway.api_keys import digest_of, draw_key
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import sampling_pb2
from dspark.v1.inference_service_pb2_grpc import InferenceServiceStub
from harness.fake_scheduler import Script
from harness.gateway_stack import GatewayStack, gateway_stack, sse_events

BATCH, INTERACTIVE = sampling_pb2.REQUEST_CLASS_BATCH, sampling_pb2.REQUEST_CLASS_INTERACTIVE
BUSY = "the request would wait for about 70 s"


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[GatewayStack]:
    async with gateway_stack(tmp_path) as stack:
        yield stack


async def test_a_service_tier_reaches_the_scheduler_and_comes_back(stack: GatewayStack) -> None:
    flex = (await stack.complete(service_tier="flex")).json()
    auto = (await stack.chat(service_tier="auto")).json()
    plain = (await stack.chat()).json()
    assert (flex["service_tier"], auto["service_tier"]) == ("flex", "default")
    assert "service_tier" not in plain
    classes = [request.request_class for request in stack.scheduler.requests]
    assert classes == [BATCH, INTERACTIVE, INTERACTIVE]
    events = sse_events((await stack.complete(service_tier="flex", stream=True)).text)
    assert all(event["service_tier"] == "flex" for event in events[:-1])


async def test_another_tier_is_refused_by_name(stack: GatewayStack) -> None:
    response = await stack.chat(service_tier="priority")
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "service_tier")
    assert error["code"] == "unsupported_field"


async def test_users_are_tenants_that_nobody_can_read(stack: GatewayStack) -> None:
    for user in ("ann@example.org", "bob@example.org", "ann@example.org", None):
        await stack.complete(user=user)
    async with AsyncClient(stack.grpc_target) as client:
        await client.generate("x", user="ann@example.org", request_class=RequestClass.BATCH)
    ann, bob, again, nobody, by_grpc = [request.tenant for request in stack.scheduler.requests]
    assert ann == again == by_grpc != bob and nobody == ""
    assert len(ann) == 16 and "ann" not in ann
    assert stack.scheduler.requests[-1].request_class == BATCH


async def test_the_tenant_of_a_key_counts_whatever_user_it_names(tmp_path: Path) -> None:
    keys = {name: draw_key() for name in ("web", "app", "other")}
    lines = [
        {
            "name": name,
            "sha256": digest_of(key).hex(),
            "tenant": "other" if name == "other" else "t",
        }
        for name, key in keys.items()
    ]
    file = tmp_path / "keys"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with gateway_stack(tmp_path, api_keys_file=str(file)) as stack:
        for name, key in keys.items():
            body = {"prompt": "x", "user": name}
            headers = {"Authorization": f"Bearer {key}"}
            await stack.client.post("/v1/completions", json=body, headers=headers)
        async with AsyncClient(stack.grpc_target, api_key=keys["web"]) as client:
            await client.generate("x", user="whoever")
    assert [request.tenant for request in stack.scheduler.requests] == ["t", "t", "other", "t"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(Overloaded(BUSY), 529, "overloaded"), (QueueFull(BUSY), 429, "rate_limit_exceeded")],
)
async def test_a_refusal_over_http_says_when_to_come_again(
    stack: GatewayStack, error: Overloaded | QueueFull, status: int, code: str, stream: bool
) -> None:
    stack.scheduler.script = Script(error=error.retry_in(37))
    response = await stack.complete(stream=stream)
    assert response.status_code == status and response.headers["retry-after"] == "37"
    assert response.json()["error"]["code"] == code
    assert response.json()["error"]["message"] == BUSY


@pytest.mark.parametrize("kind", [Overloaded, QueueFull])
async def test_a_refusal_over_grpc_says_when_to_come_again(
    stack: GatewayStack, kind: type[Overloaded] | type[QueueFull]
) -> None:
    stack.scheduler.script = Script(error=kind(BUSY).retry_in(37))
    async with rpc.channel(stack.grpc_target) as channel:
        with pytest.raises(aio.AioRpcError) as caught:
            async for _ in InferenceServiceStub(channel).Generate(pb.GenerateRequest(text="x")):
                pass
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    status = rpc_status.from_call(cast(grpc.Call, caught.value))
    assert status is not None
    retry_info = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(retry_info) for detail in status.details)
    assert retry_info.retry_delay.ToSeconds() == 37
    async with AsyncClient(stack.grpc_target) as client:
        with pytest.raises(kind) as refused:
            await client.generate("x")
    assert refused.value.retry_after_s == 37


async def test_a_class_of_a_later_version_is_refused_by_name(stack: GatewayStack) -> None:
    request = pb.GenerateRequest(text="x", request_class=7)  # type: ignore[arg-type]
    async with rpc.channel(stack.grpc_target) as channel:
        with pytest.raises(InvalidArgument) as caught, rpc.errors_of("gateway"):
            async for _ in InferenceServiceStub(channel).Generate(request):
                pass
    assert caught.value.field == "request_class"
