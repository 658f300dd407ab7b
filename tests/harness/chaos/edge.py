"""A connection between two services that can go wrong in the ways a network can, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

_CHUNK = 65536


class Edge:
    """Passes bytes from callers at ``listen`` to the service at ``upstream``, both unix sockets.

    ``delay_s`` holds back everything, ``is_stalled`` stops it until it is reset, ``noise`` replaces
    what the service answers.
    """

    def __init__(self, name: str, listen: Path, upstream: Path) -> None:
        self.name = name
        self.listen = listen
        self.upstream = upstream
        self.delay_s = 0.0
        self.noise = b""
        self.num_accepted = 0
        self._open = asyncio.Event()
        self._open.set()
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def num_connections(self) -> int:
        return len(self._connections)

    @property
    def is_stalled(self) -> bool:
        return not self._open.is_set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, str(self.listen))

    async def stop(self) -> None:
        self._server.close()
        self.heal()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.listen.unlink(missing_ok=True)

    def stall(self) -> None:
        """Keep all bytes until ``heal``; nobody is told."""
        self._open.clear()

    def heal(self) -> None:
        """Pass bytes again, at once and unchanged; what was lost stays lost."""
        self.delay_s = 0.0
        self.noise = b""
        self._open.set()

    def cut(self) -> None:
        """Break every connection."""
        for connection in list(self._connections):
            connection.abort()

    def truncate(self, num_bytes: int) -> None:
        """Break every connection after so many more bytes of answers, in the middle of a frame."""
        for connection in self._connections:
            connection.bytes_left = num_bytes

    def vanish(self) -> None:
        """From now on both ends of every open connection talk to nobody, and neither is told.

        New connections are not touched: the peer has moved, or its machine is gone for good.
        """
        for connection in self._connections:
            connection.is_gone = True

    async def passing(self) -> None:
        """Wait as long as bytes have to wait now."""
        await self._open.wait()
        if self.delay_s:
            await asyncio.sleep(self.delay_s)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.num_accepted += 1
        with contextlib.suppress(OSError, asyncio.CancelledError):
            connection = await _Connection.open(self, reader, writer)
            self._connections.add(connection)
            try:
                await connection.run()
            finally:
                self._connections.discard(connection)
        writer.transport.abort()
        self._tasks.discard(task)


class _Connection:
    """One caller's connection and the one it stands for."""

    def __init__(
        self,
        edge: Edge,
        caller: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        service: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._edge = edge
        self._caller = caller
        self._service = service
        self.is_gone = False
        self.bytes_left: int | None = None

    @classmethod
    async def open(
        cls, edge: Edge, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Connection:
        service = await asyncio.open_unix_connection(str(edge.upstream))
        return cls(edge, (reader, writer), service)

    async def run(self) -> None:
        """Until one end closes, or both if they lost sight of each other."""
        asks = asyncio.create_task(self._ask())
        answers = asyncio.create_task(self._answer())
        try:
            await asyncio.wait({asks, answers}, return_when=asyncio.FIRST_COMPLETED)
            if self.is_gone:
                await asyncio.wait({asks, answers})
        finally:
            self.abort()
            for task in (asks, answers):
                task.cancel()
            await asyncio.gather(asks, answers, return_exceptions=True)

    def abort(self) -> None:
        for _, writer in (self._caller, self._service):
            writer.transport.abort()

    async def _ask(self) -> None:
        reader, _ = self._caller
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._edge.passing()
                if not self.is_gone:
                    self._service[1].write(data)
                    await self._service[1].drain()

    async def _answer(self) -> None:
        reader, _ = self._service
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._edge.passing()
                if self.is_gone:
                    continue
                if self.bytes_left is not None:
                    data = data[: self.bytes_left]
                    self.bytes_left -= len(data)
                self._caller[1].write(self._edge.noise or data)
                await self._caller[1].drain()
                if self.bytes_left == 0:
                    return
