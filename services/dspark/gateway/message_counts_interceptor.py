"""Holds the messages of gRPC calls to the limits of what they hold, before they are parsed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio

from dspark.gateway.wire.message_counts import check_counts


class MessageCountsInterceptor(aio.ServerInterceptor):  # type: ignore[type-arg]
    """For the unary requests of one service; others pass.

    The deserializers raise InvalidArgument, which an ErrorInterceptor before this one answers.
    """

    def __init__(self, service: ServiceDescriptor, max_values: int) -> None:
        self._kinds = {
            f"/{service.full_name}/{method.name}": method.input_type for method in service.methods
        }
        self._max_values = max_values

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        handler = await continuation(handler_call_details)
        kind = self._kinds.get(handler_call_details.method)
        if handler is None or kind is None or handler.request_deserializer is None:
            return handler
        read = handler.request_deserializer

        def parse(data: bytes) -> Any:
            check_counts(data, kind, self._max_values)
            return read(data)

        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(
                handler.unary_unary, parse, handler.response_serializer
            )
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(
                handler.unary_stream, parse, handler.response_serializer
            )
        return handler
