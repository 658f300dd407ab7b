"""The openai package talks to the gateway as to OpenAI."""

from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest

from dspark.errors import InternalError
from harness.fake_scheduler import Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack


@pytest.fixture
async def client(stack: GatewayStack) -> AsyncIterator[openai.AsyncOpenAI]:
    async with stack.openai() as made:
        yield made


async def test_chat(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hi"}], temperature=0, max_tokens=5
    )
    assert answer.choices[0].message.content == "Hello"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None and answer.usage.completion_tokens == 5


async def test_chat_stream(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        max_completion_tokens=5,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello"
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 5


async def test_completions(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(
        model=MODEL, prompt="hi", stop=[","], extra_body={"speculation": {"enabled": False}}
    )
    assert answer.choices[0].text == "Hello"
    assert answer.choices[0].finish_reason == "stop"


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [MODEL]


async def test_errors_become_its_exceptions(
    client: openai.AsyncOpenAI, stack: GatewayStack
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.completions.create(model=MODEL, prompt="hi", n=300)
    assert caught.value.param == "n"
    with pytest.raises(openai.NotFoundError) as missing:
        await client.completions.create(model="other", prompt="hi")
    assert missing.value.code == "model_not_found"
    stack.scheduler.script = Script(runs_of("ab"), error=InternalError("the verifier fails"))
    stream = await client.completions.create(model=MODEL, prompt="hi", stream=True)
    with pytest.raises(openai.APIError, match="the verifier fails"):
        async for _ in stream:
            pass
