"""Ends each call that fails with the status of its error, and logs what nobody foresaw."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from dspark import errors
from dspark.idle_streams import IdleStreams
from dspark.log_limiter import LogLimiter
from dspark.rpc_errors import abort

log = logging.getLogger(__name__)

_Answer = Callable[[Exception], errors.DSparkError]
MessageCheck = Callable[[str, bytes], None]
"""Is given a method's path and a message to it before that is parsed; raises DSparkError."""


class ErrorInterceptor(aio.ServerInterceptor):  # type: ignore[type-arg]
    """Turns DSparkError into its status; other exceptions are logged and become a bare INTERNAL.

    A request that is no message of its type becomes an InvalidArgument, one that is over the limit
    a MessageTooLarge, and ``check`` may raise others.
    """

    def __init__(
        self,
        max_message_bytes: int,
        is_public: bool = False,
        check: MessageCheck | None = None,
    ) -> None:
        self.idle_streams = IdleStreams()
        self._max_message_bytes = max_message_bytes
        self._limiter = LogLimiter()
        self._is_public = is_public
        self._check = check

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        method = handler_call_details.method
        parse = self._parser(handler.request_deserializer, method)

        def answer(error: Exception) -> errors.DSparkError:
            answered = _as_dspark_error(error, method)
            return answered.for_strangers() if self._is_public else answered

        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(
                _guard_unary(handler.unary_unary, answer), parse, handler.response_serializer
            )
        if handler.unary_stream:
            # A handler that uses context.write, as health's Watch does, is a coroutine.
            is_generator = inspect.isasyncgenfunction(handler.unary_stream)
            guard = _guard_stream if is_generator else _guard_unary
            return grpc.unary_stream_rpc_method_handler(
                guard(handler.unary_stream, answer), parse, handler.response_serializer
            )
        if handler.stream_stream and inspect.isasyncgenfunction(handler.stream_stream):
            return grpc.stream_stream_rpc_method_handler(
                _guard_exchange(handler.stream_stream, answer, self.idle_streams),
                parse,
                handler.response_serializer,
            )
        return handler

    def _parser(
        self, deserialize: Callable[[bytes], Any] | None, method: str
    ) -> Callable[[bytes], Any] | None:
        if deserialize is None:
            return None

        def parse(data: bytes) -> Any:
            if len(data) > self._max_message_bytes:
                if self._limiter.is_due(method):
                    log.warning("refused a message of %d bytes to %s", len(data), method)
                return _Refused(errors.MessageTooLarge(self._max_message_bytes))
            try:
                if self._check is not None:
                    self._check(method, data)
                return deserialize(data)
            except DecodeError:
                return _UNREADABLE
            except errors.DSparkError as error:
                return _Refused(error)

        return parse


class _Refused:
    """Stands for a request that is not served: what a deserializer raises, gRPC answers itself.

    The guards raise its error.
    """

    def __init__(self, error: errors.DSparkError) -> None:
        self.error = error


_UNREADABLE = _Refused(
    errors.InvalidArgument("request", "cannot be parsed as the message of this method")
)


def _readable(request: Any) -> Any:
    if isinstance(request, _Refused):
        raise request.error
    return request


async def _readable_each(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _readable(request)


def _as_dspark_error(error: Exception, method: str) -> errors.DSparkError:
    if isinstance(error, errors.DSparkError):
        return error
    log.error("%s failed", method, exc_info=error)
    return errors.InternalError()


def _guard_unary(behaviour: Any, answer: _Answer) -> Any:
    async def guarded(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await behaviour(_readable(request), context)
        except aio.AbortError:
            raise
        except Exception as error:
            await abort(context, answer(error))

    return guarded


def _guard_stream(behaviour: Any, answer: _Answer) -> Any:
    async def guarded(request: Any, context: aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            async for response in behaviour(_readable(request), context):
                yield response
        except aio.AbortError:
            raise
        except Exception as error:
            await abort(context, answer(error))

    return guarded


def _guard_exchange(behaviour: Any, answer: _Answer, idle: IdleStreams) -> Any:
    async def with_messages(
        requests: AsyncIterator[Any], context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        async for response in behaviour(_readable_each(idle.messages(requests)), context):
            yield response

    return _guard_stream(with_messages, answer)
