"""A real redis-server of the test's own, and servers that misbehave the way a Redis can."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import redis

START_TIMEOUT_S = 20.0


class RedisServer:
    """redis-server on a unix socket in ``folder``; nothing is kept on disk."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        executable = shutil.which("redis-server")
        if executable is None:
            raise RuntimeError("redis-server is not installed (apt-get install redis-server)")
        options = [
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self._process = subprocess.Popen(
            [executable, *options, "--dir", str(self._folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if time.monotonic() > give_up_at:
                raise TimeoutError("redis-server did not start")
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.socket.unlink(missing_ok=True)

    @contextlib.contextmanager
    def client(self) -> Iterator[redis.Redis]:
        client = redis.Redis.from_url(self.url)
        try:
            yield client
        finally:
            client.close()

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


@contextlib.asynccontextmanager
async def black_hole(socket: Path) -> AsyncIterator[str]:
    """The URL of a server that accepts connections and never answers."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        writer.close()

    async with _listening(socket, swallow):
        yield f"unix://{socket}"


@contextlib.asynccontextmanager
async def babbler(socket: Path, noise: bytes) -> AsyncIterator[str]:
    """The URL of a server that answers everything with ``noise``."""

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            writer.write(noise)
        writer.close()

    async with _listening(socket, babble):
        yield f"unix://{socket}"


class SlowProxy:
    """Passes bytes to and from a Redis; ``delay_s`` holds back each answer."""

    def __init__(self, target: Path, socket: Path) -> None:
        self.delay_s = 0.0
        self.url = f"unix://{socket}"
        self._target = target
        self._socket = socket

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[SlowProxy]:
        async with _listening(self._socket, self._serve):
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_unix_connection(str(self._target))
        answers = asyncio.create_task(self._pass(upstream_reader, writer, is_answer=True))
        await self._pass(reader, upstream_writer, is_answer=False)
        upstream_writer.close()
        answers.cancel()
        await asyncio.wait([answers])
        writer.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if is_answer:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)


@contextlib.asynccontextmanager
async def _listening(socket: Path, serve: object) -> AsyncIterator[None]:
    """A unix-socket server whose open connections end with it."""
    connections: set[asyncio.Task[None]] = set()

    async def track(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await serve(reader, writer)  # type: ignore[operator]
        writer.close()
        connections.discard(task)

    server = await asyncio.start_unix_server(track, str(socket))
    try:
        yield
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        socket.unlink(missing_ok=True)
