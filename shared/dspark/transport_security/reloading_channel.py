"""A TLS channel that follows its files: calls that begin after a change use a new connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from grpc import aio

from dspark.transport_security.tls_files import TlsMaterial
from dspark.watched_files import WatchedFiles

Connect = Callable[[TlsMaterial], aio.Channel]


class ReloadingChannel(aio.Channel):
    """Calls go to the channel of the files' last good state; older ones end with their calls."""

    def __init__(self, watched: WatchedFiles[TlsMaterial], connect: Connect) -> None:
        self._watched = watched
        self._connect = connect
        self._material = watched.value()
        self._current = _Connection(connect(self._material))
        self._retired: set[_Connection] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def current(self) -> _Connection:
        material = self._watched.value()
        if material is not self._material and not self._is_closed:
            self._material = material
            self._retire(self._current)
            self._current = _Connection(self._connect(material))
        return self._current

    def _retire(self, connection: _Connection) -> None:
        self._retired.add(connection)
        connection.on_idle(lambda: self._drop(connection))

    def _drop(self, connection: _Connection) -> None:
        self._retired.discard(connection)
        closing = asyncio.ensure_future(connection.channel.close(None))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self, grace: float | None = None) -> None:
        self._is_closed = True
        channels = [connection.channel for connection in (self._current, *self._retired)]
        await asyncio.gather(*(channel.close(grace) for channel in channels), *self._closing)

    async def __aenter__(self) -> ReloadingChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close(None)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self.current().channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self.current().channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self.current().channel.channel_ready()

    def unary_unary(self, *args: Any, **options: Any) -> Any:
        return self._method("unary_unary", args, options)

    def unary_stream(self, *args: Any, **options: Any) -> Any:
        return self._method("unary_stream", args, options)

    def stream_unary(self, *args: Any, **options: Any) -> Any:
        return self._method("stream_unary", args, options)

    def stream_stream(self, *args: Any, **options: Any) -> Any:
        return self._method("stream_stream", args, options)

    def _method(self, kind: str, args: Any, options: Any) -> Any:
        def call(*call_args: Any, **call_options: Any) -> Any:
            connection = self.current()
            callable_ = connection.method(kind, args, options)
            return connection.counted(callable_(*call_args, **call_options))

        return call


class _Connection:
    """One channel, its methods, and how many of its calls run."""

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel
        self._methods: dict[tuple[Any, ...], Any] = {}
        self._num_calls = 0
        self._idle: Callable[[], None] | None = None

    def method(self, kind: str, args: Any, options: Any) -> Any:
        key = (kind, args[0])
        if key not in self._methods:
            self._methods[key] = getattr(self.channel, kind)(*args, **options)
        return self._methods[key]

    def counted(self, call: Any) -> Any:
        self._num_calls += 1
        call.add_done_callback(self._end)
        return call

    def on_idle(self, call: Callable[[], None]) -> None:
        """Call back once no call runs, which may be now."""
        self._idle = call
        if not self._num_calls:
            call()

    def _end(self, _: Any) -> None:
        self._num_calls -= 1
        if self._idle is not None and not self._num_calls:
            self._idle()
