"""The HTTP application."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from dspark.errors import DSparkError, InternalError
from dspark.gateway import openapi_schemas as schemas
from dspark.gateway.api_key_middleware import ApiKeyMiddleware, open_paths
from dspark.gateway.completion_routes import CompletionRoutes
from dspark.gateway.disconnect import ClientGone
from dspark.gateway.documentation_page import add_documentation
from dspark.gateway.gateway import Gateway
from dspark.gateway.http_errors import CLIENT_GONE_STATUS, error_body, response_of
from dspark.gateway.openai_chat_types import ChatBody
from dspark.gateway.openai_types import CompletionBody
from dspark.gateway.openapi_document import (
    GENERATING,
    READING,
    Responses,
    bearer_security,
    errors,
    path_parameter,
    probed,
    replies,
)
from dspark.gateway.openapi_schemas import Schema
from dspark.gateway.refused_endpoints import embeddings
from dspark.gateway.request_id import RequestIdMiddleware
from dspark.gateway.request_trace import note_failure
from dspark.gateway.response_counter import ResponseCounter
from dspark.gateway.responses_routes import ResponsesRoutes
from dspark.gateway.responses_types import ResponsesBody
from dspark.gateway.shortened import shortened
from dspark.gateway.status_routes import StatusRoutes
from dspark.gateway.tokenization_routes import TokenizationRoutes
from dspark.gateway.tokenization_types import DetokenizeBody, TokenizeBody
from dspark.gateway.trace_echo import TraceEcho
from dspark.gateway.trace_middleware import TraceMiddleware
from dspark.telemetry import tracing

Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


def make_app(gateway: Gateway, grpc_port: int | None) -> FastAPI:
    """All routes, with every error in OpenAI's shape."""
    app = FastAPI(
        title="DSpark",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            *_tracing(gateway),
            Middleware(RequestIdMiddleware),
            Middleware(TraceEcho),
            Middleware(ResponseCounter, counter=gateway.metrics.books.http_responses),
            *_api_keys(gateway),
        ],
        exception_handlers={
            DSparkError: _on_error,
            HTTPException: _on_http_exception,
            ClientGone: _on_client_gone,
            Exception: _on_bug,
        },
    )
    _add_posts(app, gateway)
    _add_gets(app, StatusRoutes(gateway, grpc_port))
    add_documentation(app)
    if gateway.api_keys.are_needed:
        bearer_security(app.openapi(), sorted(open_paths(_is_metrics_open(gateway))))
    return app


def _api_keys(gateway: Gateway) -> list[Middleware]:
    if not gateway.api_keys.are_needed:
        return []
    are_open = _is_metrics_open(gateway)
    return [Middleware(ApiKeyMiddleware, keys=gateway.api_keys, metrics_are_open=are_open)]


def _is_metrics_open(gateway: Gateway) -> bool:
    return not gateway.config.metrics_need_key


def _add_posts(app: FastAPI, gateway: Gateway) -> None:
    completion, tokenization = CompletionRoutes(gateway), TokenizationRoutes(gateway)
    responses = ResponsesRoutes(gateway)
    answers: list[tuple[str, Endpoint, type[BaseModel], Schema]] = [
        ("/v1/completions", completion.completions, CompletionBody, schemas.COMPLETION),
        ("/v1/chat/completions", completion.chat_completions, ChatBody, schemas.CHAT),
        ("/v1/responses", responses.create, ResponsesBody, schemas.RESPONSE),
    ]
    for path, endpoint, body, reply in answers:
        _post(app, path, endpoint, body, replies(reply, GENERATING, can_stream=True))
    tokens: list[tuple[str, Endpoint, type[BaseModel], Schema]] = [
        ("/tokenize", tokenization.tokenize, TokenizeBody, schemas.TOKENS),
        ("/detokenize", tokenization.detokenize, DetokenizeBody, schemas.DETOKENIZED),
    ]
    for path, endpoint, body, reply in tokens:
        _post(app, path, endpoint, body, replies(reply, READING))
    app.add_api_route(
        "/v1/embeddings",
        embeddings,
        methods=["POST"],
        response_model=None,
        status_code=400,
        responses=errors(400, 401),
    )


def _add_gets(app: FastAPI, status: StatusRoutes) -> None:
    _get(app, "/v1/models", status.models, replies(schemas.MODELS))
    _get(
        app,
        "/v1/models/{model:path}",
        status.model,
        replies(schemas.MODEL, [404]),
        {"parameters": [path_parameter("model")]},
    )
    _get(app, "/health", status.health, probed(schemas.STATUS))
    _get(app, "/ready", status.ready, probed(schemas.STATUS))
    _get(app, "/version", status.version, replies(schemas.VERSION))
    app.add_api_route(
        "/metrics",
        status.metrics,
        methods=["GET"],
        response_class=PlainTextResponse,
        response_model=None,
        responses=errors(400, 401),
    )
    _head(app, "/metrics", status.metrics)


def _tracing(gateway: Gateway) -> list[Middleware]:
    is_on = tracing.active() is not None
    return [Middleware(TraceMiddleware, model=gateway.config.model_name)] if is_on else []


def _get(
    app: FastAPI,
    path: str,
    endpoint: Endpoint,
    responses: Responses,
    more: dict[str, Any] | None = None,
) -> None:
    app.add_api_route(
        path,
        endpoint,
        methods=["GET"],
        response_model=None,
        responses=responses,
        openapi_extra=more,
    )
    _head(app, path, endpoint)


def _head(app: FastAPI, path: str, endpoint: Endpoint) -> None:
    # Apart, because a documented route needs one operation id for each method.
    app.add_api_route(
        path, endpoint, methods=["HEAD"], response_model=None, include_in_schema=False
    )


def _post(
    app: FastAPI, path: str, endpoint: Endpoint, body: type[BaseModel], responses: Responses
) -> None:
    # Bodies are read and checked by the endpoints; the schema is for the documentation page.
    content = {"application/json": {"schema": _inline_schema(body)}}
    documented = {"requestBody": {"required": True, "content": content}}
    app.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        response_model=None,
        responses=responses,
        openapi_extra=documented,
    )


@functools.cache
def _inline_schema(body: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema with its definitions put in place, because OpenAPI keeps them elsewhere."""
    schema = body.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolve(node: Any) -> Any:
        if isinstance(node, list):
            return [resolve(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return resolve(definitions[node["$ref"].rpartition("/")[2]])
        return {key: resolve(value) for key, value in node.items()}

    resolved: dict[str, Any] = resolve(schema)
    return resolved


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DSparkError)
    note_failure(error)
    return response_of(error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    where = f"{request.method} {shortened(request.url.path)}"
    message = {404: f"{where}: no such path", 405: f"{where}: method not allowed"}.get(
        error.status_code, str(error.detail)
    )
    body = error_body(error.status_code, message)
    return JSONResponse(body, error.status_code, dict(error.headers or {}))


async def _on_client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_GONE_STATUS)


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error("%s failed", request.url.path, exc_info=error)
    note_failure(error)
    return response_of(InternalError())
