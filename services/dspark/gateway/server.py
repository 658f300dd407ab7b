"""The gateway process: both servers on one event loop, readiness, and a stop without losses."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from dspark import rpc
from dspark.background_task import end, start_background
from dspark.config import SettingError
from dspark.garbage import keep_what_is_there
from dspark.gateway.api_key_interceptor import ApiKeyInterceptor
from dspark.gateway.app import make_app
from dspark.gateway.config import GatewayConfig
from dspark.gateway.gateway import Gateway, make_gateway
from dspark.gateway.http_protocol import HttpProtocol
from dspark.gateway.http_tls import http_tls_context
from dspark.gateway.inference_servicer import SERVICE, SERVICE_NAME, InferenceServicer
from dspark.gateway.scheduler_client import SchedulerClient
from dspark.gateway.scheduler_pool import SchedulerPool
from dspark.gateway.wire.message_counts import count_check
from dspark.service_addresses import watch_addresses
from dspark.v1 import inference_service_pb2_grpc as pb_grpc

log = logging.getLogger(__name__)

UNIX = "unix:"
_CLOSE_GRACE_S = 1.0
# Longer than load balancers keep idle connections, so that they are the ones to close them.
_KEEP_ALIVE_S = 75
_BACKLOG = 2048


class AddressError(Exception):
    """An address cannot be listened on."""


class _HttpServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals belong to the whole process: they drain both servers.
        yield


class GatewayServer:
    """``start``, then ``wait_stopped``; ``stop`` (or SIGTERM, SIGINT) drains first."""

    def __init__(self, config: GatewayConfig) -> None:
        self._config = config
        self._schedulers = SchedulerPool(
            lambda: watch_addresses(config.scheduler),
            lambda address: SchedulerClient(address, config.tls),
        )
        self.gateway: Gateway = make_gateway(config, self._schedulers)
        self._stop = asyncio.Event()
        self.http_port: int | None = None
        self.grpc_port: int | None = None

    async def start(self) -> None:
        """Raises AddressError when an address is taken, SettingError for unusable files."""
        if (tls := self._config.tls) is not None:
            tls.watched()
        self._socket = listen(self._config.http)
        keys = self.gateway.api_keys
        self._grpc = rpc.Server(
            [SERVICE_NAME],
            self._config.public_transport,
            [ApiKeyInterceptor(keys)] if keys.are_needed else [],
            count_check(SERVICE, self._config.max_body_values),
        )
        pb_grpc.add_InferenceServiceServicer_to_server(
            InferenceServicer(self.gateway), self._grpc.grpc
        )
        try:
            port = await self._grpc.start(self._config.grpc)
        except SettingError as error:
            self._socket.close()
            raise AddressError(str(error)) from error
        self.grpc_port = None if self._config.grpc.startswith(UNIX) else port
        if self._socket.family != socket.AF_UNIX:
            self.http_port = self._socket.getsockname()[1]
        self._background = [
            start_background(self._schedulers.run(), "schedulers"),
            start_background(self.gateway.monitor.watch(self._on_scheduler_change), "monitor"),
        ]
        await self._start_http()

    async def wait_stopped(self) -> None:
        """Serve until ``stop``, then drain and close."""
        await self._stop.wait()
        lifecycle = self.gateway.lifecycle
        lifecycle.start_draining()
        await self._grpc.set_ready(False)
        log.info("draining %d requests", lifecycle.num_running)
        await asyncio.sleep(self._config.drain_pause_s)
        lifecycle.refuse()
        if not await lifecycle.wait_idle(self._config.drain_s):
            log.warning("ending %d requests that still run", lifecycle.num_running)
            lifecycle.cut()
            await lifecycle.wait_idle(_CLOSE_GRACE_S)
        await self._close()

    def stop(self) -> None:
        self._stop.set()

    async def _start_http(self) -> None:
        config = uvicorn.Config(
            make_app(self.gateway, self.grpc_port),
            http=HttpProtocol,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(_CLOSE_GRACE_S),
        )
        config.load()
        if (tls := self._config.http_tls) is not None and self._socket.family != socket.AF_UNIX:
            config.ssl = http_tls_context(tls)
        self._http = _HttpServer(config)
        self._http_task = asyncio.create_task(self._http.serve(sockets=[self._socket]))
        while not self._http.started:
            if self._http_task.done():
                await self._http_task
                raise RuntimeError("the HTTP server did not start")
            await asyncio.sleep(0.005)

    async def _on_scheduler_change(self, is_ready: bool) -> None:
        await self._grpc.set_ready(is_ready and not self.gateway.lifecycle.is_draining)

    async def _close(self) -> None:
        self._http.should_exit = True
        await asyncio.gather(
            self._http_task,
            self._grpc.stop(_CLOSE_GRACE_S),
            end(self._background),
            self.gateway.grammars.close(),
            return_exceptions=True,
        )
        await self._schedulers.close()
        self.gateway.renderer.close()
        if self._config.http.startswith(UNIX):
            Path(self._config.http.removeprefix(UNIX)).unlink(missing_ok=True)


async def serve(config: GatewayConfig) -> None:
    """Run until SIGTERM or SIGINT."""
    server = GatewayServer(config)
    await server.start()
    server.gateway.renderer.start()
    # What was made so far stays for good: a full collection need not walk it beside the streams.
    gc.collect()
    gc.freeze()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    keep_what_is_there()
    log.info("serving HTTP on %s and gRPC on %s", config.http, config.grpc)
    await server.wait_stopped()


def listen(address: str) -> socket.socket:
    """A socket that listens; raises AddressError."""
    try:
        if address.startswith(UNIX):
            return _listen_unix(address.removeprefix(UNIX))
        return _listen_tcp(address)
    except (OSError, OverflowError) as error:  # a port above 65535 overflows
        reason = getattr(error, "strerror", None) or error
        raise AddressError(f"cannot listen on {address}: {reason}") from error


def _listen_tcp(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise AddressError(f"{address!r} is no address: use host:port or unix:/path")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return _bound(listener, (host, int(port)))


def _listen_unix(path: str) -> socket.socket:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
        if probe.connect_ex(path) == 0:
            raise AddressError(f"cannot listen on {path}: a server answers there")
    Path(path).unlink(missing_ok=True)
    return _bound(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), path)


def _bound(listener: socket.socket, address: tuple[str, int] | str) -> socket.socket:
    try:
        listener.bind(address)
        # Who only binds would not hinder another server that starts in the same moment.
        listener.listen(_BACKLOG)
    except Exception:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
