"""API keys of gRPC calls: checked before a call's message is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from grpc import aio

from dspark.errors import Unauthenticated
from dspark.gateway.api_keys import ApiKeys
from dspark.gateway.caller import set_caller
from dspark.rpc_errors import abort

# Probes and load balancers have no key.
_OPEN = "/grpc.health.v1.Health/"


class ApiKeyInterceptor(aio.ServerInterceptor):  # type: ignore[type-arg]
    """Every method needs a key but those of grpc.health.v1."""

    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        if handler_call_details.method.startswith(_OPEN):
            return await continuation(handler_call_details)
        given = [
            value
            for name, value in handler_call_details.invocation_metadata or ()
            if name == "authorization"
        ]
        authorization = str(given[0]) if len(given) == 1 else None
        try:
            set_caller(self._keys.caller_of(authorization, "gRPC"))
        except Unauthenticated as error:
            return _refusal(error)
        return await continuation(handler_call_details)


def _refusal(error: Unauthenticated) -> grpc.RpcMethodHandler[Any, Any]:
    # As a call that takes any messages it fits each kind of method.
    async def refuse(requests: Any, context: aio.ServicerContext[Any, Any]) -> None:
        await abort(context, error)

    return grpc.stream_stream_rpc_method_handler(refuse)
