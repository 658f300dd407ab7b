"""The services inside a command, on unix sockets, for commands that need no server of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dspark.cli.models.prepare import PreparedModel
from dspark.cli.progress import Progress
from dspark.cli.services_config import ServicesConfig
from dspark.cli.supervision.preflight import prepared_model
from dspark.cli.supervision.running import running_services
from dspark.cli.supervision.runtime_dir import runtime_dir
from dspark.cli.supervision.spec import Addresses


@asynccontextmanager
async def embedded_services(config: ServicesConfig, progress: Progress) -> AsyncIterator[str]:
    """Prepare the model and run the services for the block; yields the gateway's gRPC address."""
    async with services_for(config, prepared_model(config, progress), progress) as target:
        yield target


@asynccontextmanager
async def services_for(
    config: ServicesConfig, model: PreparedModel, progress: Progress
) -> AsyncIterator[str]:
    """The same for a model that ``prepared_model`` gave."""
    with runtime_dir() as sockets:
        addresses = Addresses(http=f"unix:{sockets}/http.sock", grpc=f"unix:{sockets}/grpc.sock")
        async with running_services(config, model, addresses, sockets, progress):
            yield addresses.grpc
