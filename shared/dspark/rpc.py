"""gRPC plumbing of every service: channels, servers, health, errors as google.rpc.Status."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_status import rpc_status

from dspark import errors
from dspark.config import SettingError
from dspark.idle_streams import IdleStreams

log = logging.getLogger(__name__)

DOMAIN = "dspark"
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# Idle keep-alive pings are tolerated so that clients behind load balancers can keep streams open.
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A second server on a taken port must fail, not share its calls.
    ("grpc.so_reuseport", 0),
]
# A server that is back is found soon; gRPC's own pauses grow to two minutes.
_CLIENT_OPTIONS = [
    *_OPTIONS,
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]
_BY_REASON = {
    cls.reason: cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, errors.DSparkError)
}


def channel(target: str) -> aio.Channel:
    """An insecure channel to ``host:port``, ``dns:///host:port`` or ``unix:/path``."""
    return aio.insecure_channel(target, options=_CLIENT_OPTIONS)


def to_status(error: errors.DSparkError) -> status_pb2.Status:
    """The error as google.rpc.Status with ErrorInfo, and RetryInfo if it says when to retry."""
    status = status_pb2.Status(code=code_pb2.Code.Value(error.code), message=error.message)
    status.details.add().Pack(
        error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    )
    if error.retry_after_s is not None:
        retry_info = error_details_pb2.RetryInfo()
        retry_info.retry_delay.FromSeconds(error.retry_after_s)
        status.details.add().Pack(retry_info)
    return status


def from_rpc_error(error: aio.AioRpcError, service: str) -> errors.DSparkError:
    """The DSparkError ``service`` raised, or BackendUnavailable when the call itself failed."""
    status = rpc_status.from_call(cast(grpc.Call, error))
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in _BY_REASON:
            rebuilt = errors.DSparkError.__new__(_BY_REASON[info.reason])
            errors.DSparkError.__init__(rebuilt, status.message, dict(info.metadata))
            return rebuilt
    return errors.BackendUnavailable(service, f"{error.code().name}: {error.details()}")


@contextmanager
def errors_of(service: str) -> Iterator[None]:
    """Around a call: its failure is raised as ``from_rpc_error`` says."""
    try:
        yield
    except aio.AioRpcError as error:
        raise from_rpc_error(error, service) from error


async def abort(context: aio.ServicerContext[Any, Any], error: errors.DSparkError) -> NoReturn:
    """End the call with the error's status."""
    status = rpc_status.to_status(to_status(error))
    await context.abort(status.code, status.details, status.trailing_metadata)
    raise AssertionError("abort returns never")


class ErrorInterceptor(aio.ServerInterceptor):  # type: ignore[type-arg]
    """Turns DSparkError into its status; other exceptions are logged and become a bare INTERNAL.

    A request that is no message of its type becomes an InvalidArgument.
    """

    def __init__(self) -> None:
        self.idle_streams = IdleStreams()

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
        parse = _parser(handler.request_deserializer)
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(
                _guard_unary(handler.unary_unary, method), parse, handler.response_serializer
            )
        if handler.unary_stream:
            # A handler that uses context.write, as health's Watch does, is a coroutine.
            is_generator = inspect.isasyncgenfunction(handler.unary_stream)
            guard = _guard_stream if is_generator else _guard_unary
            return grpc.unary_stream_rpc_method_handler(
                guard(handler.unary_stream, method), parse, handler.response_serializer
            )
        if handler.stream_stream and inspect.isasyncgenfunction(handler.stream_stream):
            return grpc.stream_stream_rpc_method_handler(
                _guard_exchange(handler.stream_stream, method, self.idle_streams),
                parse,
                handler.response_serializer,
            )
        return handler


class _Unreadable:
    """Stands for a request that cannot be parsed: what a deserializer raises, gRPC answers itself.

    The guards turn it into an error with a reason.
    """


def _parser(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    if deserialize is None:
        return None

    def parse(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError:
            return _Unreadable()

    return parse


def _readable(request: Any) -> Any:
    if isinstance(request, _Unreadable):
        raise errors.InvalidArgument("request", "cannot be parsed as the message of this method")
    return request


async def _readable_each(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _readable(request)


def _as_dspark_error(error: Exception, method: str) -> errors.DSparkError:
    if isinstance(error, errors.DSparkError):
        return error
    log.error("%s failed", method, exc_info=error)
    return errors.InternalError()


def _guard_unary(behaviour: Any, method: str) -> Any:
    async def guarded(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await behaviour(_readable(request), context)
        except aio.AbortError:
            raise
        except Exception as error:
            await abort(context, _as_dspark_error(error, method))

    return guarded


def _guard_stream(behaviour: Any, method: str) -> Any:
    async def guarded(request: Any, context: aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            async for response in behaviour(_readable(request), context):
                yield response
        except aio.AbortError:
            raise
        except Exception as error:
            await abort(context, _as_dspark_error(error, method))

    return guarded


def _guard_exchange(behaviour: Any, method: str, idle: IdleStreams) -> Any:
    async def with_messages(
        requests: AsyncIterator[Any], context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        async for response in behaviour(_readable_each(idle.messages(requests)), context):
            yield response

    return _guard_stream(with_messages, method)


class Server:
    """A gRPC server with health and reflection; ``service_names`` are the full names it serves.

    Health of "" says the process is alive; health of each service name says it is ready, and
    starts as NOT_SERVING.
    """

    def __init__(self, service_names: Sequence[str]) -> None:
        self._errors = ErrorInterceptor()
        self.grpc = aio.server(options=_OPTIONS, interceptors=[self._errors])
        self._names = tuple(service_names)
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc)
        reflection.enable_server_reflection(
            (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME), self.grpc
        )

    async def start(self, address: str) -> int:
        """Listen on ``host:port`` (0: any free port) or ``unix:/path``; returns the bound port.

        Raises SettingError if that cannot be.
        """
        try:
            port = self.grpc.add_insecure_port(address)
        except RuntimeError as error:
            problem = f"cannot listen on {address}: it is in use, or no address of this machine"
            raise SettingError(problem) from error
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        await self.set_ready(False)
        await self.grpc.start()
        return port

    async def set_ready(self, ready: bool) -> None:
        serving = health_pb2.HealthCheckResponse
        for name in self._names:
            await self._health.set(name, serving.SERVING if ready else serving.NOT_SERVING)

    async def stop(self, grace: float) -> None:
        """Say NOT_SERVING, let running calls end within ``grace`` seconds, stop."""
        await self._health.enter_graceful_shutdown()
        self._errors.idle_streams.end()
        await self.grpc.stop(grace)


async def is_ready(
    target_channel: aio.Channel, service_name: str, timeout: float | None = 1.0
) -> bool:
    """Whether the health service behind the channel says SERVING for ``service_name``."""
    stub = health_pb2_grpc.HealthStub(target_channel)
    request = health_pb2.HealthCheckRequest(service=service_name)
    try:
        response = await stub.Check(request, timeout=timeout)
    except aio.AioRpcError:
        return False
    return bool(response.status == health_pb2.HealthCheckResponse.SERVING)
