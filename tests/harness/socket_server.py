"""Servers of a test's own on real sockets."""

from __future__ import annotations

from typing import ClassVar, Self

from grpc import aio

from dspark import rpc


class SocketServer:
    """Start it, or enter it, and call it at ``target``."""

    target: str = ""

    async def listen(self, address: str) -> int:
        """Serve at the address; returns the bound port."""
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    async def start(self, address: str = "127.0.0.1:0") -> Self:
        port = await self.listen(address)
        self.target = address if address.startswith("unix:") else f"127.0.0.1:{port}"
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class FakeService(SocketServer):
    """One gRPC service that is ready from the start; ``name`` is its full name."""

    name: ClassVar[str]

    def add_to(self, server: aio.Server) -> None:
        """Register the servicer."""
        raise NotImplementedError

    async def listen(self, address: str) -> int:
        self._server = rpc.Server([self.name])
        self.add_to(self._server.grpc)
        port = await self._server.start(address)
        await self._server.set_ready(True)
        return port

    async def stop(self) -> None:
        await self._server.stop(0)
