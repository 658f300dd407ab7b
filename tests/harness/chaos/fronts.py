"""Clients that watch closely: they notice a chunk too many, too few or out of order."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx

from dspark.client import AsyncClient
from dspark.errors import BackendUnavailable, DSparkError
from harness.chaos.outcome import Answer, BrokenProtocol, ConnectionLost
from harness.chaos.stream_spec import StreamSpec

# What a gateway that drains tells its clients; they turn to another one.
_GOING = "the server is shutting down"


class GatewayClients:
    """The HTTP and the gRPC client of one gateway."""

    def __init__(self, http_socket: str, grpc_socket: str) -> None:
        transport = httpx.AsyncHTTPTransport(uds=http_socket)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=None)
        self.grpc = AsyncClient(f"unix:{grpc_socket}")

    async def is_ready(self) -> bool:
        """As a load balancer asks."""
        try:
            return (await self.http.get("/ready", timeout=1.0)).status_code == 200
        except httpx.HTTPError:
            return False

    async def run(self, spec: StreamSpec, answer: Answer) -> None:
        """Fill ``answer`` to its end.

        Raises ConnectionLost, BrokenProtocol, or RuntimeError with what the server said.
        """
        answer.started_at = time.monotonic()
        await _FRONTS[spec.front](self, spec, answer)

    async def close(self) -> None:
        await self.http.aclose()
        await self.grpc.close()


async def _run_grpc(clients: GatewayClients, spec: StreamSpec, answer: Answer) -> None:
    try:
        async with clients.grpc.stream(spec.prompt, **_options(spec)) as stream:
            async for chunk in stream:
                _add(answer, chunk.token_ids, chunk.text)
            completion = stream.completion
    except DSparkError as error:
        lost = isinstance(error, BackendUnavailable) and error.metadata["service"] == "gateway"
        if lost or _GOING in str(error):
            raise ConnectionLost(str(error)) from error
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
    _end(answer, completion.finish_reason.value, completion.stop_reason)
    answer.completion_tokens = completion.usage.completion_tokens


async def _run_whole(clients: GatewayClients, spec: StreamSpec, answer: Answer) -> None:
    try:
        response = await clients.http.post("/v1/completions", json=_body(spec))
    except httpx.TransportError as error:
        raise ConnectionLost(repr(error)) from error
    _check_status(response.status_code, response.text)
    reply = response.json()
    (choice,) = reply["choices"]
    _add(answer, choice["token_ids"], choice["text"])
    _end(answer, choice["finish_reason"], choice["stop_reason"])
    answer.completion_tokens = reply["usage"]["completion_tokens"]


async def _run_sse(clients: GatewayClients, spec: StreamSpec, answer: Answer) -> None:
    path = "/v1/chat/completions" if spec.front == "chat" else "/v1/completions"
    body = _body(spec) | {"stream": True, "stream_options": {"include_usage": True}}
    try:
        async with clients.http.stream("POST", path, json=body) as response:
            if response.status_code != 200:
                _check_status(response.status_code, (await response.aread()).decode())
            await read_events(response.aiter_lines(), answer)
    except httpx.TransportError as error:
        raise ConnectionLost(repr(error)) from error


async def read_events(lines: AsyncIterator[str], answer: Answer) -> None:
    """The lines of a stream of events; raises BrokenProtocol unless each is in its place."""
    is_done = False
    async for line in lines:
        if not line:
            continue
        if is_done:
            raise BrokenProtocol(f"after the end mark came {line!r}")
        if line == "data: [DONE]":
            is_done = True
        else:
            _add_event(answer, json.loads(line.removeprefix("data: ")))
    if not is_done or answer.completion_tokens is None:
        raise BrokenProtocol("the stream has no end mark, or no usage")


def _add_event(answer: Answer, event: dict[str, Any]) -> None:
    if "error" in event:
        _check_status(500, json.dumps(event["error"]))
    if answer.completion_tokens is not None:
        raise BrokenProtocol(f"after the usage came {event}")
    if not event["choices"]:
        if answer.finish_reason is None:
            raise BrokenProtocol("usage came before the finish reason")
        answer.completion_tokens = event["usage"]["completion_tokens"]
        return
    (choice,) = event["choices"]
    text = choice["delta"].get("content", "") if "delta" in choice else choice["text"]
    _add(answer, choice.get("token_ids", ()), text)
    if choice["finish_reason"] is not None:
        _end(answer, choice["finish_reason"], choice["stop_reason"])


def _add(answer: Answer, token_ids: Any, text: str) -> None:
    if answer.finish_reason is not None and (token_ids or text):
        raise BrokenProtocol("tokens came after the finish reason")
    answer.token_ids.extend(token_ids)
    answer.text += text
    answer.arrivals.append(time.monotonic())


def _end(answer: Answer, finish_reason: str, stop_reason: str | int | None) -> None:
    if answer.finish_reason is not None:
        raise BrokenProtocol("two finish reasons came")
    answer.finish_reason, answer.stop_reason = finish_reason, stop_reason


def _check_status(status: int, text: str) -> None:
    if status == 200:
        return
    if _GOING in text:
        raise ConnectionLost(text)
    raise RuntimeError(f"{status}: {text[:300]}")


def _options(spec: StreamSpec) -> dict[str, Any]:
    return {
        "max_tokens": spec.max_tokens,
        "temperature": spec.temperature,
        "seed": spec.seed,
        "top_p": spec.top_p,
        "stop": list(spec.stop),
        "ignore_eos": spec.ignore_eos,
        "use_prefix_cache": spec.use_prefix_cache,
        "speculation": spec.speculation,
    }


def _body(spec: StreamSpec) -> dict[str, Any]:
    options = _options(spec) | {"speculation": {"enabled": spec.speculation}}
    prompt: dict[str, Any] = {"prompt": spec.prompt}
    if spec.front == "chat":
        prompt = {"messages": [{"role": "user", "content": spec.prompt}]}
    return {**prompt, **options, "return_token_ids": True}


_FRONTS: dict[str, Callable[[GatewayClients, StreamSpec, Answer], Awaitable[None]]] = {
    "sse": _run_sse,
    "chat": _run_sse,
    "grpc": _run_grpc,
    "whole": _run_whole,
}
