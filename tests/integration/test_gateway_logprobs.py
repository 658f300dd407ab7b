"""Log-probabilities and echo in OpenAI's and vLLM's shapes, over gRPC, and in the SDK."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dspark.client import AsyncClient
from harness.byte_tokenizer import EOS
from harness.fake_scheduler import Script, fake_logprobs, runs_of
from harness.gateway_stack import GatewayStack, sse_events

TEXT = "a€ STOP b"
DATA = TEXT.encode()
PARTIAL = {0xE2: "\\xe2", 0x82: "\\x82", 0xAC: "\\xac"}


@pytest.fixture(autouse=True)
def script(stack: GatewayStack) -> None:
    stack.scheduler.script = Script([*runs_of(TEXT, 3), [256]])


def chat_token(token: int, logprob: float | None = None) -> dict[str, Any]:
    data = bytes([token]) if token < 256 else EOS.encode()
    text = PARTIAL.get(token) or data.decode(errors="strict")
    value = -token / 64 if logprob is None else logprob
    return {"token": text, "logprob": value, "bytes": list(data)}


async def test_chat_without_likely_tokens(stack: GatewayStack) -> None:
    choice = (await stack.chat(logprobs=True, max_tokens=40)).json()["choices"][0]
    assert choice["logprobs"]["refusal"] is None
    content = choice["logprobs"]["content"]
    assert content == [{**chat_token(t), "top_logprobs": []} for t in (*DATA, 256)]
    joined = b"".join(bytes(token["bytes"]) for token in content[:-1])
    assert joined.decode() == choice["message"]["content"] == TEXT


async def test_chat_with_likely_tokens(stack: GatewayStack) -> None:
    response = await stack.chat(logprobs=True, top_logprobs=2, max_tokens=40)
    first = response.json()["choices"][0]["logprobs"]["content"][0]
    a = ord("a")
    # JSON has no infinity: the one that cannot be drawn has OpenAI's least value.
    likely = [chat_token(a), chat_token(a + 1, -9999.0)]
    assert first == {**chat_token(a), "top_logprobs": likely}


@pytest.mark.parametrize("stop", [None, "STOP"])
async def test_a_stream_tells_as_much_as_the_whole(stack: GatewayStack, stop: Any) -> None:
    fields = {"logprobs": True, "top_logprobs": 1, "stop": stop, "return_token_ids": True}
    whole = (await stack.chat(**fields)).json()["choices"][0]
    events = sse_events((await stack.chat(**fields, stream=True)).text)
    choices = [event["choices"][0] for event in events[:-1]]
    streamed = [t for c in choices if c["logprobs"] for t in c["logprobs"]["content"]]
    assert streamed == whole["logprobs"]["content"]
    # Cut exactly as the ids are.
    wanted = [*b"a\xe2\x82\xac STOP"] if stop else [*DATA, 256]
    assert whole["token_ids"] == wanted
    assert [round(-64 * token["logprob"]) for token in streamed] == wanted


async def test_completions(stack: GatewayStack) -> None:
    choice = (await stack.complete(logprobs=1, max_tokens=5)).json()["choices"][0]
    tokens = ["a", "bytes:\\xe2", "bytes:\\x82", "bytes:\\xac", " "]
    values = [-token / 64 for token in DATA[:5]]
    assert choice["logprobs"] == {
        "tokens": tokens,
        "token_logprobs": values,
        "top_logprobs": [{text: value} for text, value in zip(tokens, values, strict=True)],
        "text_offset": [0, 1, 1, 1, 2],
    }


async def test_a_token_is_among_the_likely_ones_of_completions(stack: GatewayStack) -> None:
    choice = (await stack.complete(logprobs=0, max_tokens=1)).json()["choices"][0]
    assert choice["logprobs"]["top_logprobs"] == [{"a": -97 / 64}]


async def test_completions_stream_offsets_that_go_on(stack: GatewayStack) -> None:
    events = sse_events((await stack.complete(logprobs=0, max_tokens=8, stream=True)).text)
    parts = [event["choices"][0]["logprobs"] for event in events[:-1]]
    offsets = [offset for part in parts if part for offset in part["text_offset"]]
    assert offsets == [0, 1, 1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("prompt", ["h€", [*"h€".encode()]])
async def test_echo_begins_the_text_with_the_prompt(stack: GatewayStack, prompt: Any) -> None:
    response = await stack.complete(prompt=prompt, echo=True, logprobs=1, max_tokens=2)
    choice = response.json()["choices"][0]
    # The second token is a part of a character.
    assert choice["text"] == "h€a\ufffd"
    told = choice["logprobs"]
    assert told["tokens"] == ["h", "bytes:\\xe2", "bytes:\\x82", "bytes:\\xac", "a", "bytes:\\xe2"]
    assert told["token_logprobs"] == [None, *(-t / 64 for t in b"\xe2\x82\xaca\xe2")]
    assert told["top_logprobs"][0] is None
    assert told["text_offset"] == [0, 1, 1, 1, 2, 3]
    assert "prompt_logprobs" not in choice


async def test_echo_streams_the_prompt_first(stack: GatewayStack) -> None:
    fields = {"prompt": "hi", "echo": True, "logprobs": 0, "max_tokens": 5}
    whole = (await stack.complete(**fields)).json()["choices"][0]
    events = sse_events((await stack.complete(**fields, stream=True)).text)
    choices = [event["choices"][0] for event in events[:-1]]
    assert "".join(choice["text"] for choice in choices) == whole["text"] == "hia€ "
    told = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    assert [t for part in told for t in part["tokens"]] == whole["logprobs"]["tokens"]
    assert [t for part in told for t in part["text_offset"]] == whole["logprobs"]["text_offset"]


async def test_echo_without_logprobs_asks_nothing_of_the_verifier(stack: GatewayStack) -> None:
    choice = (await stack.complete(prompt="hi", echo=True, max_tokens=1)).json()["choices"][0]
    assert (choice["text"], choice["logprobs"]) == ("hia", None)
    assert not stack.scheduler.requests[-1].sampling.HasField("prompt_logprobs")


async def test_prompt_logprobs_have_the_shape_of_vllm(stack: GatewayStack) -> None:
    body = (await stack.complete(prompt="hi", prompt_logprobs=1, max_tokens=1)).json()
    i = {"logprob": -105 / 64, "rank": 1, "decoded_token": "i"}
    assert body["choices"][0]["prompt_logprobs"] == [None, {"105": i}]
    assert body["choices"][0]["logprobs"] is None
    chat = (await stack.chat(prompt_logprobs=0, max_tokens=1)).json()
    assert len(chat["prompt_logprobs"]) == chat["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": {"258": 1}}, "logit_bias"),
        ({"logit_bias": {"7": 101}}, "logit_bias"),
        ({"min_tokens": 17}, "min_tokens"),
        ({"bad_words": [""]}, "bad_words"),
        ({"allowed_token_ids": [258]}, "allowed_token_ids"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ],
)
async def test_what_is_out_of_range_is_a_400_that_names_it(
    stack: GatewayStack, fields: dict[str, Any], param: str
) -> None:
    response = await stack.complete(**fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


async def test_min_tokens_hold_back_stop_strings(stack: GatewayStack) -> None:
    body = (await stack.complete(stop="STOP", min_tokens=9, max_tokens=40)).json()
    assert body["choices"][0]["text"] == TEXT
    assert stack.scheduler.requests[-1].sampling.min_tokens == 9


async def test_the_openapi_document_has_the_fields(stack: GatewayStack) -> None:
    schema = (await stack.client.get("/openapi.json")).json()
    text = str(schema["paths"]["/v1/completions"])
    for field in ("logit_bias", "bad_words", "allowed_token_ids", "min_tokens", "echo"):
        assert f"'{field}'" in text
    assert "'top_logprobs'" in str(schema["paths"]["/v1/chat/completions"])


async def test_the_sdk_has_values_and_bytes(stack: GatewayStack) -> None:
    async with AsyncClient(stack.grpc_target) as client:
        done = await client.generate(
            "hi",
            max_tokens=40,
            logprobs=2,
            prompt_logprobs=1,
            stop="STOP",
            bad_words=["xyz", [1, 2]],
            logit_bias={5: 1.5},
        )
    assert b"".join(told.data for told in done.logprobs) == b"a\xe2\x82\xac STOP"
    assert [told.token_id for told in done.logprobs] == list(done.token_ids)
    (wanted,) = fake_logprobs([ord("a")], 2)
    first = done.logprobs[0]
    assert (first.logprob, first.rank) == (wanted.logprob, 1)
    assert [(t.token_id, t.logprob, t.data) for t in first.top] == [
        (97, -97 / 64, b"a"),
        (98, -math.inf, b"b"),
    ]
    assert [told.data for told in done.prompt_logprobs] == [b"i"]
    sampling = stack.scheduler.requests[-1].sampling
    assert [list(word.token_ids) for word in sampling.bad_words] == [[1, 2], [*b"xyz"]]
    assert [(b.token_id, b.bias) for b in sampling.logit_bias] == [(5, 1.5)]
