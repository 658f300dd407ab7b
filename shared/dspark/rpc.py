"""gRPC plumbing of every service: channels, servers, health."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from dspark.config import SettingError
from dspark.error_interceptor import ErrorInterceptor, MessageCheck
from dspark.rpc_errors import errors_of, from_rpc_error
from dspark.transport_security.credentials import channel_credentials, server_credentials
from dspark.transport_security.peer_interceptor import PeerInterceptor
from dspark.transport_security.reloading_channel import ReloadingChannel
from dspark.transport_security.settings import (
    DEFAULT_MAX_MESSAGE_BYTES,
    PLAIN,
    ServerTransport,
)
from dspark.transport_security.tls_files import TlsFiles, TlsMaterial

__all__ = ["Server", "channel", "errors_of", "from_rpc_error", "is_ready"]

UNIX = "unix:"
# Up to so many times its limit a message is read, so that its refusal can have a reason.
_READ_FACTOR = 2
# Idle keep-alive pings are tolerated so that clients behind load balancers can keep streams open.
_OPTIONS = [
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Callers' headers beyond the first value may be refused, beyond the second they are.
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.absolute_max_metadata_size", 32 * 1024),
]
_SERVER_OPTIONS = [
    *_OPTIONS,
    ("grpc.max_send_message_length", -1),
    # A second server on a taken port must fail, not share its calls.
    ("grpc.so_reuseport", 0),
]
# Between services a peer that vanished without a word, or stands still, is given up after the sum.
_PEER_OPTIONS = [
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # How long any ping waits for its answer: gRPC's own minute would rule over the line above.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # What a peer pings is tolerated; gRPC would end its connection after a few.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
]
# Strangers may not pile up streams, and one that vanished must not keep its requests running.
_PUBLIC_OPTIONS = [
    ("grpc.max_concurrent_streams", 1024),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
]
# A server that is back is found soon; gRPC's own pauses grow to two minutes.
_CLIENT_OPTIONS = [
    *_OPTIONS,
    ("grpc.max_receive_message_length", DEFAULT_MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


def channel(target: str, tls: TlsFiles | None = None, service: str = "") -> aio.Channel:
    """A channel to ``host:port``, ``dns:///host:port`` or ``unix:/path``, which is never encrypted.

    With ``tls`` it follows the files (SettingError if they cannot be used now), and the server's
    certificate must be one for ``service`` whatever its address, or for the address's host where
    ``service`` is empty. A ``service`` that stops answering pings is lost at once for all calls.
    """
    options = [*_CLIENT_OPTIONS, *(_PEER_OPTIONS if service else [])]
    if tls is None or target.startswith(UNIX):
        return aio.insecure_channel(target, options=options)
    name = [("grpc.ssl_target_name_override", service)] if service else []

    def connect(material: TlsMaterial) -> aio.Channel:
        credentials = channel_credentials(material)
        return aio.secure_channel(target, credentials, options=[*options, *name])

    return ReloadingChannel(tls.watched(), connect)


class Server:
    """A gRPC server with health and reflection; ``service_names`` are the full names it serves.

    Health of "" says the process is alive; health of each service name says it is ready, and
    starts as NOT_SERVING. ``check`` looks at messages before they are parsed.
    """

    def __init__(
        self,
        service_names: Sequence[str],
        transport: ServerTransport = PLAIN,
        interceptors: Sequence[aio.ServerInterceptor[Any, Any]] = (),
        check: MessageCheck | None = None,
    ) -> None:
        limit, is_public = transport.max_message_bytes, transport.is_public
        self._errors = ErrorInterceptor(limit, is_public, check)
        self._transport = transport
        self.grpc = aio.server(
            options=_server_options(transport),
            interceptors=[self._errors, *_peer_interceptors(transport), *interceptors],
        )
        self._names = tuple(service_names)
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        self._health_only: aio.Server | None = None
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc)
        reflection.enable_server_reflection(
            (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME), self.grpc
        )

    async def start(self, address: str) -> int:
        """Listen on ``host:port`` (0: any free port) or ``unix:/path``; returns the bound port.

        Raises SettingError if that cannot be, or if the files of TLS cannot be used.
        """
        port = _listen(self.grpc, address, self._credentials(address))
        if self._transport.health_port:
            self._health_only = aio.server(options=_SERVER_OPTIONS)
            health_pb2_grpc.add_HealthServicer_to_server(self._health, self._health_only)
            _listen(self._health_only, f"[::]:{self._transport.health_port}", None)
            await self._health_only.start()
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        await self.set_ready(False)
        await self.grpc.start()
        return port

    def _credentials(self, address: str) -> grpc.ServerCredentials | None:
        tls = self._transport.tls
        if tls is None:
            return None
        tls.watched()
        if address.startswith(UNIX):
            return None
        require_peer = self._transport.allowed_peers is not None
        return server_credentials(tls, require_peer=require_peer)

    async def set_ready(self, ready: bool) -> None:
        serving = health_pb2.HealthCheckResponse
        for name in self._names:
            await self._health.set(name, serving.SERVING if ready else serving.NOT_SERVING)

    async def stop(self, grace: float) -> None:
        """Say NOT_SERVING, let running calls end within ``grace`` seconds, stop."""
        await self._health.enter_graceful_shutdown()
        self._errors.idle_streams.end()
        await self.grpc.stop(grace)
        if self._health_only is not None:
            await self._health_only.stop(0)


def _server_options(transport: ServerTransport) -> list[tuple[str, int]]:
    most = transport.max_message_bytes * _READ_FACTOR
    guard = _PUBLIC_OPTIONS if transport.is_public else _PEER_OPTIONS
    return [*_SERVER_OPTIONS, *guard, ("grpc.max_receive_message_length", most)]


def _peer_interceptors(transport: ServerTransport) -> list[PeerInterceptor]:
    if transport.tls is None or transport.allowed_peers is None:
        return []
    return [PeerInterceptor(transport.allowed_peers)]


def _listen(server: aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        problem = f"cannot listen on {address}: it is in use, or no address of this machine"
        raise SettingError(problem) from error


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
