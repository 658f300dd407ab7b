"""Structured output over HTTP, gRPC and the SDK: to the scheduler as asked, or refused by name."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import llguidance
import pytest

from dspark import rpc
from dspark.client import AsyncClient, StructuredOutput
from dspark.errors import InvalidArgument
from dspark.grammars.compilation import compile_grammar
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from dspark.v1 import sampling_pb2
from dspark.wire.structured_output import structured_from_proto
from harness.byte_tokenizer import byte_tokenizer
from harness.gateway_stack import GatewayStack, gateway_stack

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
CHAIN = "\n".join(f"r{i}: r{i + 1}" for i in range(12_000))


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[GatewayStack]:
    async with gateway_stack(tmp_path, tokenizer=byte_tokenizer()) as running:
        yield running


def sent(stack: GatewayStack) -> StructuredOutput:
    return structured_from_proto(stack.scheduler.requests[-1].sampling.structured)


# Fields, what they ask for, and a text that is it.
FORMS: list[tuple[dict[str, Any], StructuredOutput, str]] = [
    ({"response_format": FORMAT}, StructuredOutput.json_schema(SCHEMA), '{"a": 1}'),
    ({"response_format": {"type": "json_object"}}, StructuredOutput.json_object(), "{}"),
    ({"structured_outputs": {"regex": "a+"}}, StructuredOutput.regex("a+"), "aa"),
    ({"structured_outputs": {"choice": ["a", "é"]}}, StructuredOutput.choice(["a", "é"]), "é"),
    ({"guided_grammar": 'start: "x"'}, StructuredOutput.grammar('start: "x"'), "x"),
]


async def test_every_form_reaches_the_scheduler(stack: GatewayStack) -> None:
    for fields, output, _ in FORMS:
        for call in (stack.complete, stack.chat):
            response = await call(**fields)
            assert response.status_code == 200, response.text
            assert sent(stack) == output
    await stack.complete(response_format={"type": "text"})
    assert not stack.scheduler.requests[-1].sampling.HasField("structured")


async def test_a_model_that_reasons_does_so_before_any_form(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    vocabulary = llguidance.LLTokenizer(tokenizer.to_str(), eos_token=[256])
    settings = {"tokenizer": tokenizer, "reasoning_parser": "deepseek_r1"}
    async with gateway_stack(tmp_path, **settings) as stack:
        for fields, output, text in FORMS:
            assert (await stack.chat(**fields)).status_code == 200
            matcher = compile_grammar(vocabulary, sent(stack))
            ids = tokenizer.encode(f"Hm. {{</think>\n\n{text}").ids
            assert matcher.consume_tokens(ids) and matcher.is_accepting(), fields
            assert (await stack.complete(**fields)).status_code == 200
            assert sent(stack) == output
        fields = {"response_format": {**FORMAT, "json_schema": {"schema": {"not": {}}}}}
        error = (await stack.chat(**fields)).json()["error"]
        assert error["param"] == "response_format.json_schema.schema"


@pytest.mark.parametrize(
    ("fields", "param", "word"),
    [
        ({"structured_outputs": {"regex": "["}}, "structured_outputs.regex", "unclosed"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice", "at least one"),
        ({"structured_outputs": {"json": True}}, "structured_outputs.json", ""),
        (
            {"response_format": {**FORMAT, "json_schema": {"schema": {"not": {}}}}},
            "response_format.json_schema.schema",
            "not",
        ),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json", "JSON"),
        ({"guided_grammar": "start: x"}, "guided_grammar", "unknown name"),
        (
            {"guided_grammar": f'start: r0\n{CHAIN}\nr12000: "a"'},
            "guided_grammar",
            "too deep",
        ),
        ({"guided_regex": "a" * 300_000}, "guided_regex", "262144"),
        (
            {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}},
            "structured_outputs.regex",
            "cannot go with",
        ),
    ],
)
async def test_refusals_name_the_field_and_leave_nothing(
    stack: GatewayStack, fields: dict[str, Any], param: str, word: str
) -> None:
    response = await stack.complete(**fields)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == param
    assert word in error["message"]
    assert not stack.scheduler.requests
    assert stack.server.gateway.lifecycle.num_running == 0
    assert (await stack.complete()).status_code == 200


async def test_ten_megabytes_are_refused_at_once(stack: GatewayStack) -> None:
    body = json.dumps({"prompt": "hi", "structured_outputs": {"regex": "a" * 10_000_000}})
    response = await stack.client.post("/v1/completions", content=body)
    assert response.status_code == 413
    assert stack.server.gateway.grammars.worker_id is None


async def test_bytes_that_are_no_text_are_refused(stack: GatewayStack) -> None:
    body = b'{"prompt": "hi", "structured_outputs": {"regex": "\xff"}}'
    assert (await stack.client.post("/v1/completions", content=body)).status_code == 400


async def test_others_are_answered_while_a_hostile_grammar_compiles(stack: GatewayStack) -> None:
    assert (await stack.complete(structured_outputs={"regex": "a"})).status_code == 200
    fields = {f"f{i}": {"type": "string"} for i in range(6000)}
    slow = asyncio.create_task(stack.complete(guided_json={"properties": fields}))
    num_answered = 0
    started = time.monotonic()
    while not slow.done():
        assert (await stack.complete()).status_code == 200
        num_answered += 1
    assert num_answered > 3
    assert (await slow).status_code == 400
    assert time.monotonic() - started < 30


async def test_the_sdk_and_plain_grpc(stack: GatewayStack) -> None:
    async with AsyncClient(stack.grpc_target) as client:
        await client.generate("hi", structured=StructuredOutput.json_schema(SCHEMA))
        assert sent(stack) == StructuredOutput.json_schema(SCHEMA)
        await client.generate("hi", structured=StructuredOutput.choice(["a", "b"]))
        assert sent(stack) == StructuredOutput.choice(["a", "b"])
        with pytest.raises(InvalidArgument) as caught:
            await client.generate("hi", structured=StructuredOutput.regex("(?=a)"))
        assert caught.value.field == "sampling.structured.regex"
        with pytest.raises(InvalidArgument, match="262144") as caught:
            await client.generate("hi", structured=StructuredOutput.regex("a" * 300_000))
        assert caught.value.field == "sampling.structured.regex"
        with pytest.raises(InvalidArgument) as caught:
            await client.generate("hi", structured="a+")  # type: ignore[arg-type]
        assert caught.value.field == "structured"


async def test_a_structure_without_a_form_is_refused(stack: GatewayStack) -> None:
    sampling = sampling_pb2.SamplingParams(structured=sampling_pb2.StructuredOutput())
    request = pb.GenerateRequest(text="hi", sampling=sampling)
    async with rpc.channel(stack.grpc_target) as channel:
        stub = pb_grpc.InferenceServiceStub(channel)
        with pytest.raises(InvalidArgument) as caught, rpc.errors_of("gateway"):
            async for _ in stub.Generate(request):
                pass
    assert caught.value.field == "sampling.structured"
