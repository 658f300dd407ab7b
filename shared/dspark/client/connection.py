"""The connection of a client, and what is raised when a call on it ends badly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from grpc import aio

from dspark import rpc
from dspark.client.closed import ClientClosed
from dspark.errors import DeadlineExceeded, DSparkError
from dspark.transport_security.tls_files import TlsFiles


class Connection:
    """The channel, made at the first call because it belongs to the loop that runs then."""

    def __init__(self, target: str, tls: TlsFiles | None = None) -> None:
        self._target = target
        self._tls = tls
        self._channel: aio.Channel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    def channel(self) -> aio.Channel:
        """Raises ClientClosed, or RuntimeError while another event loop has the channel."""
        if self.is_closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop) and not self._is_loop_over():
            raise RuntimeError("this client serves another event loop: make one for each loop")
        if self._channel is None or self._loop is not loop:
            self._channel, self._loop = rpc.channel(self._target, self._tls), loop
        return self._channel

    async def close(self) -> None:
        """Cancel what runs; nothing can be called any more."""
        self.is_closed = True
        channel, self._channel = self._channel, None
        if channel is not None and not self._is_loop_over():
            await channel.close(None)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Around the wait for a call: what ended it is raised as a DSparkError."""
        try:
            yield
        except aio.AioRpcError as error:
            raise _translated(error) from error
        except asyncio.CancelledError:
            if self.is_closed and not is_task_cancelled():
                raise ClientClosed from None
            raise

    def _is_loop_over(self) -> bool:
        return self._loop is not None and self._loop.is_closed()


def is_task_cancelled() -> bool:
    """Whether it is the current task that is cancelled, not the call that it waits for."""
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


def _translated(error: aio.AioRpcError) -> DSparkError:
    translated = rpc.from_rpc_error(error, "gateway")
    if isinstance(translated, DeadlineExceeded):
        return translated
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("the call did not end within its timeout")
    return translated
