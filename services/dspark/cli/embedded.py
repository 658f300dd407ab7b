"""The services inside a command, on unix sockets, for commands that need no server of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dspark.cli.models.prepare import prepare
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.cli.supervision.running import running_services
from dspark.cli.supervision.runtime_dir import runtime_dir
from dspark.cli.supervision.spec import Addresses


@asynccontextmanager
async def embedded_services(config: ServicesConfig, progress: Progress) -> AsyncIterator[str]:
    """Run the services for the block; yields the gateway's gRPC address."""
    model = prepare(config.model, progress)
    with runtime_dir() as sockets:
        addresses = Addresses(http=f"unix:{sockets}/http.sock", grpc=f"unix:{sockets}/grpc.sock")
        async with running_services(config, model, addresses, sockets, progress):
            yield addresses.grpc
