"""Requests at the edge of HTTP and JSON: long names, encodings, HEAD."""

from __future__ import annotations

from typing import Any

import pytest

from harness.byte_tokenizer import EOS
from harness.fake_scheduler import Script
from harness.gateway_stack import MODEL, GatewayStack

END = 256


def _error(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status
    return dict(response.json()["error"])


async def test_a_long_name_is_shortened_in_the_answer(stack: GatewayStack) -> None:
    name = "m" * 3000
    for response in (
        await stack.complete(model=name),
        await stack.client.get(f"/v1/models/{name}"),
        await stack.client.get(f"/{name}"),
    ):
        message = _error(response, 404)["message"]
        assert "mmm…" in message
        assert len(response.text) < 600
    sources = {"sources": [name]}
    assert len((await stack.complete(speculation=sources)).text) < 600
    assert len((await stack.complete(prompt=[10**4000])).text) < 600
    assert len((await stack.complete(max_tokens=10**4300 - 1)).text) < 600


async def test_encodings_that_are_not_read_are_a_415(stack: GatewayStack) -> None:
    path, content = "/v1/completions", b'{"prompt": "x"}'
    for header, value in (
        ("Content-Encoding", "gzip"),
        ("Content-Type", "application/json; charset=utf-16"),
    ):
        response = await stack.client.post(path, content=content, headers={header: value})
        assert _error(response, 415)["param"] == header
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await stack.client.post(path, content=content, headers=form)).status_code == 200


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/version", "/metrics", "/v1/models", f"/v1/models/{MODEL}"]
)
async def test_head_is_get_without_the_body(stack: GatewayStack, path: str) -> None:
    head = await stack.client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == (await stack.client.get(path)).headers["content-type"]


async def test_special_tokens_in_chat_content_are_parsed(stack: GatewayStack) -> None:
    messages = [{"role": "user", "content": "ab"}]
    await stack.chat(messages=messages)
    messages[0]["content"] = f"a{EOS}b"
    await stack.chat(messages=messages)
    plain, special = (list(r.prompt_token_ids) for r in stack.scheduler.requests)
    assert special.count(END) == plain.count(END) + 1
    assert len(special) == len(plain) + 1


async def test_a_special_token_is_no_stop_string_but_a_stop_token(stack: GatewayStack) -> None:
    stack.scheduler.script = Script(([*b"one", END, *b"two"],))
    fields = {"ignore_eos": True, "max_tokens": 7}
    (choice,) = (await stack.complete(stop=EOS, **fields)).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("onetwo", "length")
    (choice,) = (await stack.complete(stop_token_ids=[END], **fields)).json()["choices"]
    assert (choice["text"], choice["stop_reason"]) == ("one", END)
