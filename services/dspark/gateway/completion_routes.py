"""POST /v1/completions and /v1/chat/completions."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dspark.errors import DSparkError, InternalError
from dspark.gateway.admission import Admitted
from dspark.gateway.client_request import ClientRequest
from dspark.gateway.disconnect import cancel_on_disconnect
from dspark.gateway.echo import Echo
from dspark.gateway.event_stream import EventStreamResponse
from dspark.gateway.gateway import Gateway
from dspark.gateway.generation_events import Completed, Event, Started
from dspark.gateway.http_errors import event_of
from dspark.gateway.json_body import read_object
from dspark.gateway.openai_requests import (
    chat_request,
    completion_request,
    parse_chat,
    parse_completion,
)
from dspark.gateway.openai_responses import (
    DONE,
    ChatStyle,
    CompletionStyle,
    ResponseOptions,
    ResponseStyle,
    ResponseWriter,
)
from dspark.gateway.openai_types import CommonFields
from dspark.gateway.request_id import draw_request_id
from dspark.gateway.request_trace import current_trace
from dspark.gateway.service_tier import tier_of_class
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.tokenizer import TextTokenizer
from dspark.telemetry import current

log = logging.getLogger(__name__)

Events = AsyncGenerator[Event, None]


class CompletionRoutes:
    """The two endpoints that generate."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def completions(self, request: Request) -> Response:
        fields = await read_object(request, self._gateway.config.max_body_bytes)
        body = parse_completion(fields)
        client = completion_request(body, _request_id(request))
        return await self._answer(request, body, client, CompletionStyle())

    async def chat_completions(self, request: Request) -> Response:
        fields = await read_object(request, self._gateway.config.max_body_bytes)
        body = parse_chat(fields)
        client = chat_request(body, _request_id(request))
        return await self._answer(request, body, client, ChatStyle())

    async def _answer(
        self, request: Request, body: CommonFields, client: ClientRequest, style: ResponseStyle
    ) -> Response:
        current.request_id.set(client.request_id)
        if (trace := current_trace()) is not None:
            trace.asked(client, is_stream=bool(body.stream))
        async with cancel_on_disconnect(request.receive):
            self._gateway.lifecycle.check_accepting()
            admitted = await self._gateway.admission.admit(client)
            events = self._gateway.generation.run(admitted.request, admitted.info.eos_token_ids)
            started = await anext(events)
            assert isinstance(started, Started)
            model, tokenizer = self._gateway.config.model_name, self._gateway.tokenizer
            options = _options(body, client, admitted, tokenizer)
            writer = ResponseWriter(style, model, started, options, tokenizer.token_bytes)
            if body.stream:
                return await _stream(events, writer)
            return await _collect(events, writer, admitted)


def _options(
    body: CommonFields, client: ClientRequest, admitted: Admitted, tokenizer: TextTokenizer
) -> ResponseOptions:
    echo = None
    if client.echo:
        echo = Echo.of(client.prompt, admitted.request.prompt_token_ids, tokenizer)
    return ResponseOptions(
        return_token_ids=bool(body.return_token_ids),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
        service_tier=None if body.service_tier is None else tier_of_class(client.request_class),
        logprobs=client.logprobs,
        prompt_logprobs=client.prompt_logprobs,
        echo=echo,
    )


def _request_id(request: Request) -> str:
    # Clients may reuse their ids at will; live requests at the scheduler may not share one.
    return f"{request.state.request_id}-{draw_request_id()[:8]}"


async def _collect(events: Events, writer: ResponseWriter, admitted: Admitted) -> Response:
    chunks: list[TextChunk] = []
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TextChunk):
                chunks.append(event)
            elif isinstance(event, Completed):
                whole = writer.whole(chunks, event, admitted.request.prompt_token_ids)
                return JSONResponse(whole)
    raise InternalError("the request ended without a result")


async def _stream(events: Events, writer: ResponseWriter) -> Response:
    """Waits for the first tokens, so that a refusal still becomes a status code."""
    try:
        first = await anext(events)
    except BaseException:
        await events.aclose()
        raise
    return EventStreamResponse(_encode(first, events, writer))


async def _encode(
    first: Event, events: Events, writer: ResponseWriter
) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        yield writer.opening() + _event(first, writer)
        try:
            async for event in events:
                yield _event(event, writer)
        except DSparkError as error:
            yield event_of(error) + DONE
        except Exception:
            log.exception("a stream failed")
            yield event_of(InternalError()) + DONE


def _event(event: Event, writer: ResponseWriter) -> bytes:
    match event:
        case TextChunk():
            return writer.chunk(event)
        case Completed():
            return writer.closing(event)
        case Started():
            return b""
