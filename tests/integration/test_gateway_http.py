"""The HTTP API over real sockets: answers, streams, errors, status pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dspark.errors import BackendUnavailable, InternalError, NotReady, QueueFull
from dspark.gateway import resumption
from harness.byte_tokenizer import EOS, byte_tokenizer
from harness.fake_scheduler import ERROR, FakeScheduler, Script, runs_of
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack, sse_events

END = 256


def _play(stack: GatewayStack, *runs: list[int], **options: Any) -> None:
    stack.scheduler.script = Script(runs, **options)


def _error(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return dict(error)


async def test_a_completion(stack: GatewayStack) -> None:
    body = (await stack.complete(model=MODEL, seed=5, return_token_ids=True)).json()
    assert body["object"] == "text_completion"
    assert body["id"].startswith("cmpl-")
    assert (body["model"], body["seed"]) == (MODEL, 5)
    assert body["prompt_token_ids"] == list(b"hi")
    (choice,) = body["choices"]
    assert (choice["index"], choice["text"]) == (0, "Hello, world.")
    assert (choice["finish_reason"], choice["stop_reason"]) == ("length", None)
    assert bytes(choice["token_ids"]) == b"Hello, world."
    usage = body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2, 13)
    assert usage["total_tokens"] == 15


async def test_a_chat_completion(stack: GatewayStack) -> None:
    _play(stack, [*b"Yes.", END])
    body = (await stack.chat()).json()
    (choice,) = body["choices"]
    assert body["object"] == "chat.completion"
    assert choice["message"] == {"role": "assistant", "content": "Yes."}
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", None)
    assert body["usage"]["completion_tokens"] == 5


async def test_speculation_in_and_out(stack: GatewayStack) -> None:
    _play(stack, list(b"abcd"), list(b"ef"))
    options = {"enabled": True, "sources": ["suffix"], "max_draft_tokens": 5}
    body = (await stack.complete(speculation=options)).json()
    assert body["speculation"] == {
        "rounds": 2,
        "drafted": 8,
        "accepted": 4,
        "sources": {"suffix": {"drafted": 8, "accepted": 4}},
        "steps": {
            "propose_ms": 0.5,
            "verify_ms": 4.0,
            "forward_ms": 3.0,
            "overhead_ms": 1.5,
            "ahead_ms": 0.25,
        },
    }
    sent = stack.scheduler.requests[0].speculation
    assert (sent.enabled, list(sent.sources), sent.max_draft_tokens) == (True, ["suffix"], 5)


async def test_the_scheduler_sees_every_scalar_and_a_drawn_seed(stack: GatewayStack) -> None:
    body = (await stack.complete(cache_salt="t", priority=2, use_prefix_cache=False)).json()
    (request,) = stack.scheduler.requests
    for name in ("temperature", "top_k", "top_p", "min_p", "seed", "max_tokens", "ignore_eos"):
        assert request.sampling.HasField(name)
    assert request.sampling.seed == body["seed"]
    assert (request.cache_salt, request.priority, request.use_prefix_cache) == ("t", 2, False)


async def test_unseeded_requests_have_seeds_of_their_own(stack: GatewayStack) -> None:
    seeds = {(await stack.complete()).json()["seed"] for _ in range(10)}
    assert len(seeds) == 10


@pytest.mark.parametrize("stop", ["STOP", ["never", "STOP"]])
@pytest.mark.parametrize("size", [1, 3, 20])
async def test_a_stop_string_ends_text_ids_and_usage_at_its_token(
    stack: GatewayStack, stop: Any, size: int
) -> None:
    _play(stack, *runs_of("one STOP two", size), hang=True)
    body = (await stack.complete(stop=stop, return_token_ids=True)).json()
    (choice,) = body["choices"]
    assert choice["text"] == "one "
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "STOP")
    assert bytes(choice["token_ids"]) == b"one STOP"
    assert body["usage"]["completion_tokens"] == 8
    assert body["speculation"]["rounds"] >= 1
    assert body["speculation"]["steps"]["forward_ms"] == 3.0
    assert stack.scheduler.stopped == [stack.scheduler.requests[0].request_id]
    assert await stack.metric("vllm:generation_tokens_total") == 8


async def test_a_stop_string_ends_the_request_even_when_the_scheduler_does_not_help(
    stack: GatewayStack,
) -> None:
    stack.scheduler.stop_error = BackendUnavailable("verifier", "gone")
    _play(stack, *runs_of("one STOP two"), hang=True)
    body = (await stack.complete(stop="STOP")).json()
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 8
    assert body["speculation"] is None
    assert await stack.scheduler.wait_cancelled()


async def test_a_stop_string_in_the_last_tokens_needs_no_stop(stack: GatewayStack) -> None:
    _play(stack, list(b"one STOP"))
    body = (await stack.complete(stop="STOP", max_tokens=8)).json()
    assert body["choices"][0]["stop_reason"] == "STOP"
    assert body["speculation"]["accepted"] == 7


async def test_a_stop_token_is_named(stack: GatewayStack) -> None:
    _play(stack, list(b"done!more"))
    body = (await stack.complete(stop_token_ids=[ord("!")])).json()
    (choice,) = body["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("done", "stop")
    assert choice["stop_reason"] == ord("!")


async def test_usage_is_what_was_delivered(stack: GatewayStack) -> None:
    _play(stack, *runs_of("abcdefg", 3), repeat=True)
    for max_tokens in range(1, 41):
        options = {"max_tokens": max_tokens, "return_token_ids": True}
        whole = (await stack.complete(**options)).json()
        (choice,) = whole["choices"]
        assert len(choice["token_ids"]) == len(choice["text"]) == max_tokens
        assert whole["usage"]["completion_tokens"] == max_tokens
        usage = {"include_usage": True}
        streamed = await stack.complete(stream=True, stream_options=usage, **options)
        events = sse_events(streamed.text)
        ids = [i for e in events[:-2] for c in e["choices"] for i in c.get("token_ids", [])]
        assert ids == choice["token_ids"]
        assert events[-2]["usage"]["completion_tokens"] == max_tokens
    assert await stack.metric("vllm:generation_tokens_total") == 2 * sum(range(1, 41))


@pytest.mark.parametrize("include_usage", [True, False])
@pytest.mark.parametrize("surface", ["complete", "chat"])
@pytest.mark.parametrize(
    ("fields", "reason", "text"),
    [
        ({"max_tokens": 4}, "length", "one "),
        ({"stop": " two"}, "stop", "one"),
        ({"stop_token_ids": [ord("w")]}, "stop", "one t"),
        ({}, "stop", "one two"),
    ],
)
async def test_a_stream_ends_by_contract(
    stack: GatewayStack,
    surface: str,
    include_usage: bool,
    fields: dict[str, Any],
    reason: str,
    text: str,
) -> None:
    _play(stack, *runs_of("one two"), [END])
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    response = await getattr(stack, surface)(stream=True, **options, **fields)
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, last = sse_events(response.text)
    assert last == "[DONE]"
    if include_usage:
        usage = events.pop()
        assert usage["choices"] == []
        assert usage["usage"]["prompt_tokens"] > 0
        assert all(event["usage"] is None for event in events)
    choices = [event["choices"][0] for event in events]
    assert [c["finish_reason"] for c in choices] == [None] * (len(choices) - 1) + [reason]
    assert len({event["id"] for event in events}) == 1
    assert isinstance(events[-1]["seed"], int)
    assert "speculation" in events[-1]
    if surface == "chat":
        assert choices[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(c["delta"].get("content", "") for c in choices) == text
    else:
        assert "".join(c["text"] for c in choices) == text


async def test_characters_split_over_runs_are_streamed_whole(stack: GatewayStack) -> None:
    text = "né 漢字 👨‍👩‍👧 ไทย"
    _play(stack, *runs_of(text, 1))
    response = await stack.complete(stream=True, max_tokens=100)
    events = sse_events(response.text)[:-1]
    pieces = [event["choices"][0]["text"] for event in events]
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces)


async def test_a_truncated_character_ends_as_one_replacement(stack: GatewayStack) -> None:
    _play(stack, list(b"a\xf0\x9f\x98"))
    body = (await stack.complete(max_tokens=3)).json()
    assert body["choices"][0]["text"] == "a\ufffd"


async def test_an_error_before_the_first_token_is_a_status(stack: GatewayStack) -> None:
    for stream in (False, True):
        _play(stack, error=QueueFull("too many requests wait"))
        response = await stack.complete(stream=stream)
        error = _error(response, 429)
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert response.headers["retry-after"]


async def test_an_error_in_a_stream_is_an_event(stack: GatewayStack) -> None:
    _play(stack, *runs_of("ab"), error=InternalError("the verifier fails"))
    *events, error, last = sse_events((await stack.complete(stream=True)).text)
    assert last == "[DONE]"
    assert error["error"]["code"] == "internal"
    assert "".join(e["choices"][0]["text"] for e in events) == "ab"
    assert all(e["choices"][0]["finish_reason"] is None for e in events)
    assert await stack.metric('vllm:request_success_total{engine="0",finished_reason="error"') == 1


async def test_an_error_after_tokens_is_a_status_when_not_streamed(stack: GatewayStack) -> None:
    _play(stack, *runs_of("ab"), error=InternalError("the verifier fails"))
    assert "verifier" in _error(await stack.complete(), 500)["message"]
    _play(stack, *runs_of("ab"), finish_reason=ERROR)
    assert _error(await stack.complete(), 500)["type"] == "server_error"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[1]",
        b'"x"',
        b"3",
        b'{"prompt": "x", "temperature": NaN}',
        b'{"prompt": "x", "temperature": Infinity}',
        b'{"prompt": "x", "temperature": 1e999}',
        b'{"prompt": "\xff\xfe"}',
        b'{"prompt": "x", "seed": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"prompt": "x"} {"prompt": "y"}',
    ],
)
async def test_a_broken_body_is_refused(stack: GatewayStack, content: bytes) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        error = _error(await stack.client.post(path, content=content), 400)
        assert error["param"] == "body"
    assert (await stack.complete()).status_code == 200


async def test_a_body_over_the_limit_is_refused(tmp_path: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100

    async with gateway_stack(tmp_path, max_body_bytes=1000) as stack:
        _error(await stack.complete(prompt="x" * 1000), 413)
        _error(await stack.client.post("/v1/completions", content=chunks()), 413)
        assert (await stack.complete(prompt="x" * 100)).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temprature": 1}, "temprature", "invalid_argument"),
        ({"n": 0}, "n", "invalid_argument"),
        ({"n": 10**6}, "n", "invalid_argument"),
        ({"suffix": "x"}, "suffix", "unsupported_field"),
        ({"temperature": "hot"}, "temperature", "invalid_argument"),
        ({"temperature": -1}, "temperature", "invalid_argument"),
        ({"prompt": ""}, "prompt", "invalid_argument"),
        ({"prompt": [""]}, "prompt", "invalid_argument"),
        ({"prompt": []}, "prompt", "invalid_argument"),
        ({"prompt": [[]]}, "prompt", "invalid_argument"),
        ({"prompt": [70000]}, "prompt", "invalid_argument"),
        ({"prompt": "x" * 128}, "prompt", "context_length_exceeded"),
        ({"prompt": "x" * 129}, "prompt", "context_length_exceeded"),
        ({"prompt": "x" * 1280}, "prompt", "context_length_exceeded"),
        ({"max_tokens": 200}, "max_tokens", "context_length_exceeded"),
        ({"speculation": {"sources": ["magic"]}}, "speculation.sources", "invalid_argument"),
    ],
)
async def test_a_bad_field_is_named_and_never_reaches_the_scheduler(
    stack: GatewayStack, fields: dict[str, Any], param: str, code: str
) -> None:
    error = _error(await stack.complete(**fields), 400)
    assert (error["param"], error["code"]) == (param, code)
    assert error["type"] == "invalid_request_error"
    assert stack.scheduler.requests == []
    assert (await stack.complete(prompt="x" * 127)).json()["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("prompt", [" ", "\n\n", EOS])
async def test_odd_but_filled_prompts_are_served(stack: GatewayStack, prompt: str) -> None:
    assert (await stack.complete(prompt=prompt)).status_code == 200


async def test_unknown_models_paths_and_methods(stack: GatewayStack) -> None:
    error = _error(await stack.complete(model="gpt-4"), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    _error(await stack.client.get("/v1/models/gpt-4"), 404)
    assert "/v2/x" in _error(await stack.client.get("/v2/x"), 404)["message"]
    response = await stack.client.get("/v1/completions")
    assert "GET" in _error(response, 405)["message"]
    assert response.headers["allow"] == "POST"


async def test_the_request_id_is_echoed_or_drawn(stack: GatewayStack) -> None:
    path, body = "/v1/completions", {"prompt": "hi"}
    given = await stack.client.post(path, json=body, headers={"X-Request-Id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    assert given.json()["id"].startswith("cmpl-abc-1")
    assert (await stack.complete()).headers["x-request-id"]
    streamed = await stack.client.post(
        path, json={**body, "stream": True}, headers={"X-Request-Id": "abc-2"}
    )
    assert streamed.headers["x-request-id"] == "abc-2"
    bad = await stack.client.post(path, json=body, headers={"X-Request-Id": "a b"})
    assert _error(bad, 400)["param"] == "X-Request-Id"


async def test_equal_request_ids_may_be_live_at_once(stack: GatewayStack) -> None:
    _play(stack, list(b"ab"), start_delay_s=0.05)
    headers = {"X-Request-Id": "same"}
    posts = [
        stack.client.post("/v1/completions", json={"prompt": "hi"}, headers=headers)
        for _ in range(5)
    ]
    assert [r.status_code for r in await asyncio.gather(*posts)] == [200] * 5
    assert len({request.request_id for request in stack.scheduler.requests}) == 5


async def test_the_model_card(stack: GatewayStack) -> None:
    listing = (await stack.client.get("/v1/models")).json()
    (card,) = listing["data"]
    assert listing["object"] == "list"
    assert (card["id"], card["object"], card["owned_by"]) == (MODEL, "model", "dspark")
    assert card["max_model_len"] == 128
    assert card["dspark"] == {
        "grpc_port": stack.server.grpc_port,
        "sources": ["recycle", "suffix", "retrieval"],
        "exactness": "strict",
        "policy": "fixed",
    }
    assert (await stack.client.get(f"/v1/models/{MODEL}")).json() == card


async def test_the_documentation_describes_the_bodies(stack: GatewayStack) -> None:
    schema = (await stack.client.get("/openapi.json")).json()
    body = schema["paths"]["/v1/chat/completions"]["post"]["requestBody"]
    properties = body["content"]["application/json"]["schema"]["properties"]
    assert {"messages", "max_completion_tokens", "speculation"} <= set(properties)
    assert "$ref" not in json.dumps(body)


async def test_readiness_follows_the_scheduler_and_health_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "FIRST_PATIENCE_S", 0.0)
    async with gateway_stack(tmp_path) as stack:
        for path in ("/health", "/ready"):
            assert (await stack.client.get(path)).json() == {"status": "ok"}
        assert (await stack.client.get("/version")).json()["version"]
        stack.scheduler.info_error = NotReady("the verifier is loading")
        await stack.server.gateway.monitor.refresh()
        assert (await stack.client.get("/health")).status_code == 200
        ready = await stack.client.get("/ready")
        assert (ready.status_code, ready.json()["reason"]) == (503, "the verifier is loading")
        await stack.scheduler.stop()
        assert (await stack.client.get("/health")).status_code == 200
        await stack.server.gateway.monitor.refresh()
        ready = await stack.client.get("/ready")
        assert ready.status_code == 503
        assert "scheduler" in ready.json()["reason"]
        assert _error(await stack.complete(), 503)["code"] == "backend_unavailable"
        assert (await stack.client.get("/metrics")).status_code == 200


async def test_before_the_scheduler_is_ready_requests_get_503(tmp_path: Path) -> None:
    scheduler = FakeScheduler(info_error=NotReady("the verifier is loading"))
    async with gateway_stack(tmp_path, scheduler) as stack:
        assert _error(await stack.complete(), 503)["code"] == "not_ready"
        assert (await stack.client.get("/v1/models")).status_code == 503
        scheduler.info_error = None
        for _ in range(30):
            if (await stack.client.get("/ready")).status_code == 200:
                break
            await asyncio.sleep(0.1)
        assert (await stack.complete()).status_code == 200


async def test_metrics_have_the_names_that_routers_read(stack: GatewayStack) -> None:
    await stack.complete(max_tokens=5)
    assert await stack.metric("vllm:num_requests_running{") == 2
    assert await stack.metric("vllm:num_requests_waiting{") == 3
    assert await stack.metric("vllm:kv_cache_usage_perc{") == 0.25
    assert await stack.metric("vllm:spec_decode_num_drafts_total{") == 10
    assert await stack.metric("vllm:spec_decode_num_draft_tokens_total{") == 40
    assert await stack.metric("vllm:spec_decode_num_accepted_tokens_total{") == 20
    assert await stack.metric("vllm:prompt_tokens_total{") == 2
    assert await stack.metric("vllm:generation_tokens_total{") == 5
    assert await stack.metric('vllm:request_success_total{engine="0",finished_reason="length"') == 1
    assert await stack.metric("vllm:time_to_first_token_seconds_count{") == 1
    assert await stack.metric("vllm:inter_token_latency_seconds_count{") == 4
    assert await stack.metric("vllm:e2e_request_latency_seconds_count{") == 1
    assert await stack.metric('dspark_source_draft_tokens_total{model_name="test-model"') == 40
    counted = 'dspark_gateway_http_responses_total{path="/v1/completions",status="200"'
    assert await stack.metric(counted) == 1


async def test_pieces_of_many_bytes_count_as_one_token(tmp_path: Path) -> None:
    scheduler = FakeScheduler(Script([[256], [257]]), eos_token_ids=(258,), vocab_size=260)
    tokenizer = byte_tokenizer([b"Hello \xe6\xbc", b"\xa2!"])
    async with gateway_stack(tmp_path, scheduler, tokenizer) as stack:
        body = (await stack.complete()).json()
        assert body["choices"][0]["text"] == "Hello 漢!"
        assert body["usage"]["completion_tokens"] == 2
