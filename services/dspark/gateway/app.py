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
from starlette.responses import JSONResponse, Response

from dspark.errors import DSparkError, InternalError
from dspark.gateway.api_key_middleware import ApiKeyMiddleware
from dspark.gateway.completion_routes import CompletionRoutes
from dspark.gateway.disconnect import ClientGone
from dspark.gateway.gateway import Gateway
from dspark.gateway.http_errors import CLIENT_GONE_STATUS, error_body, response_of
from dspark.gateway.openai_chat_types import ChatBody
from dspark.gateway.openai_types import CompletionBody
from dspark.gateway.request_id import RequestIdMiddleware
from dspark.gateway.request_trace import note_failure
from dspark.gateway.response_counter import ResponseCounter
from dspark.gateway.shortened import shortened
from dspark.gateway.status_routes import StatusRoutes
from dspark.gateway.trace_middleware import TraceMiddleware
from dspark.telemetry import tracing

Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


def make_app(gateway: Gateway, grpc_port: int | None) -> FastAPI:
    """All routes, with every error in OpenAI's shape."""
    app = FastAPI(
        title="DSpark",
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            *_tracing(gateway),
            Middleware(RequestIdMiddleware),
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
    completion = CompletionRoutes(gateway)
    _post(app, "/v1/completions", completion.completions, CompletionBody)
    _post(app, "/v1/chat/completions", completion.chat_completions, ChatBody)
    status = StatusRoutes(gateway, grpc_port)
    _get(app, "/v1/models", status.models)
    _get(app, "/v1/models/{model:path}", status.model)
    _get(app, "/health", status.health)
    _get(app, "/ready", status.ready)
    _get(app, "/version", status.version)
    _get(app, "/metrics", status.metrics)
    return app


def _api_keys(gateway: Gateway) -> list[Middleware]:
    if not gateway.api_keys.are_needed:
        return []
    are_open = not gateway.config.metrics_need_key
    return [Middleware(ApiKeyMiddleware, keys=gateway.api_keys, metrics_are_open=are_open)]


def _tracing(gateway: Gateway) -> list[Middleware]:
    is_on = tracing.active() is not None
    return [Middleware(TraceMiddleware, model=gateway.config.model_name)] if is_on else []


def _get(app: FastAPI, path: str, endpoint: Endpoint) -> None:
    app.add_api_route(path, endpoint, methods=["GET"], response_model=None)
    # Apart, because a documented route needs one operation id for each method.
    app.add_api_route(
        path, endpoint, methods=["HEAD"], response_model=None, include_in_schema=False
    )


def _post(app: FastAPI, path: str, endpoint: Endpoint, body: type[BaseModel]) -> None:
    # Bodies are read and checked by the endpoints; the schema is for the documentation page.
    content = {"application/json": {"schema": _inline_schema(body)}}
    documented = {"requestBody": {"required": True, "content": content}}
    app.add_api_route(
        path, endpoint, methods=["POST"], response_model=None, openapi_extra=documented
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
