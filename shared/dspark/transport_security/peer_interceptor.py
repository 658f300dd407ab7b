"""Answers only the peers that a service allows, by the identity in their certificates."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc import aio

from dspark.errors import PermissionDenied
from dspark.log_limiter import LogLimiter
from dspark.transport_security.identities import identities_of

log = logging.getLogger(__name__)

# Whoever has a certificate of ours may ask how a service is and what it offers.
_OPEN = ("/grpc.health.v1.Health/", "/grpc.reflection.")
_Context = aio.ServicerContext[Any, Any]


class PeerInterceptor(aio.ServerInterceptor):  # type: ignore[type-arg]
    """Each call of another peer raises PermissionDenied; a peer's refusals are logged once."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed
        self._limiter = LogLimiter()

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(_OPEN):
            return handler

        def check(context: _Context) -> None:
            self._check(context, method)

        return _guarded(handler, check)

    def _check(self, context: _Context, method: str) -> None:
        # Only this machine's processes reach a unix socket, and only where its folder lets them.
        if context.peer().startswith("unix:"):
            return
        identities = identities_of(context.auth_context())
        if identities.isdisjoint(self._allowed):
            names = ", ".join(sorted(identities)) or "no identity"
            if self._limiter.is_due(names):
                log.warning("refused %s (%s) the call %s", context.peer(), names, method)
            raise PermissionDenied("this certificate may not make this call")


def _guarded(
    handler: grpc.RpcMethodHandler[Any, Any], check: Callable[[_Context], None]
) -> grpc.RpcMethodHandler[Any, Any]:
    """The handler with the check before its behaviour, whichever of the four kinds it is."""
    kind, make = next(
        (name, getattr(grpc, f"{name}_rpc_method_handler"))
        for name in ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
        if getattr(handler, name)
    )
    behaviour = getattr(handler, kind)
    wrap = _checked_stream if inspect.isasyncgenfunction(behaviour) else _checked
    made: grpc.RpcMethodHandler[Any, Any] = make(
        wrap(behaviour, check), handler.request_deserializer, handler.response_serializer
    )
    return made


def _checked(behaviour: Any, check: Callable[[_Context], None]) -> Any:
    async def checked(request: Any, context: _Context) -> Any:
        check(context)
        return await behaviour(request, context)

    return checked


def _checked_stream(behaviour: Any, check: Callable[[_Context], None]) -> Any:
    async def checked(request: Any, context: _Context) -> AsyncIterator[Any]:
        check(context)
        async for response in behaviour(request, context):
            yield response

    return checked
