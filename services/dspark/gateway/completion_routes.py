"""POST /v1/completions and /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dspark.gateway.answer_streaming import collected, streaming
from dspark.gateway.answer_writer import AnswerWriter
from dspark.gateway.best_of import best_choices, drawn_fields
from dspark.gateway.client_request import ClientRequest
from dspark.gateway.disconnect import cancel_on_disconnect
from dspark.gateway.echo import Echo
from dspark.gateway.gateway import Gateway
from dspark.gateway.generation_events import Started
from dspark.gateway.legacy_functions import FunctionStyle
from dspark.gateway.openai_requests import (
    chat_request,
    completion_request,
    num_choices,
    parse_chat,
    parse_completion,
)
from dspark.gateway.openai_responses import (
    ChatStyle,
    CompletionStyle,
    ResponseOptions,
    ResponseStyle,
)
from dspark.gateway.openai_types import CommonFields
from dspark.gateway.request_id import draw_request_id
from dspark.gateway.request_trace import current_trace
from dspark.gateway.service_tier import tier_of_class
from dspark.telemetry import current


class CompletionRoutes:
    """The two endpoints that generate."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def completions(self, request: Request) -> Response:
        body = await self._gateway.read_body(request, parse_completion)
        request_id = unique_request_id(request)
        clients = [completion_request(body, request_id, i) for i in range(len(body.prompt))]
        best_of = body.best_of if clients[0].is_ranked else None
        return await self._answer(request, body, clients, CompletionStyle(), best_of)

    async def chat_completions(self, request: Request) -> Response:
        body = await self._gateway.read_body(request, parse_chat)
        client = chat_request(body, unique_request_id(request))
        style = FunctionStyle() if body.functions else ChatStyle()
        return await self._answer(request, body, [client], style)

    async def _answer(
        self,
        request: Request,
        body: CommonFields,
        clients: Sequence[ClientRequest],
        style: ResponseStyle,
        best_of: int | None = None,
    ) -> Response:
        note_request(clients[0], is_stream=bool(body.stream))
        n = num_choices(body)
        tokenizer = self._gateway.tokenizer

        def echo_of(index: int, started: Started) -> Echo | None:
            client = clients[index // n]
            if not client.echo:
                return None
            return Echo.of(client.prompt, started.prompt_token_ids, tokenizer)

        writer = AnswerWriter(
            style,
            self._gateway.config.model_name,
            clients[0].request_id,
            _options(body, clients[0], len(clients) * n),
            max(n, 1),
            tokenizer.token_bytes,
            echo_of,
        )
        async with cancel_on_disconnect(request.receive):
            if best_of is None:
                events = self._gateway.answers.run(clients, n)
                if body.stream:
                    return await streaming(events, writer)
                return JSONResponse(writer.whole(await collected(events)))
            drawn = await collected(self._gateway.answers.run(clients, best_of, "best_of"))
            whole = writer.whole(best_choices(drawn, n, best_of))
            return JSONResponse(whole | drawn_fields(drawn, best_of))


def note_request(client: ClientRequest, is_stream: bool) -> None:
    """The log and the trace of this task tell of the request from here on."""
    current.request_id.set(client.request_id)
    if (trace := current_trace()) is not None:
        trace.asked(client, is_stream=is_stream)


def unique_request_id(request: Request) -> str:
    # Clients may reuse their ids at will; live requests at the scheduler may not share one.
    return f"{request.state.request_id}-{draw_request_id()[:8]}"


def _options(body: CommonFields, client: ClientRequest, num_choices: int) -> ResponseOptions:
    stream = body.stream_options
    return ResponseOptions(
        return_token_ids=bool(body.return_token_ids),
        include_usage=bool(stream and stream.include_usage),
        service_tier=None if body.service_tier is None else tier_of_class(client.request_class),
        continuous_usage=bool(stream and stream.continuous_usage_stats),
        num_choices=num_choices,
        are_ranked=client.is_ranked,
        logprobs=client.logprobs,
        prompt_logprobs=client.prompt_logprobs,
    )
