"""Everything between a ServicesConfig and services that answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dspark.cli.models.prepare import PreparedModel
from dspark.cli.progress import Part, Progress
from dspark.cli.services_config import ServicesConfig
from dspark.cli.supervision.runtime_dir import log_dir
from dspark.cli.supervision.spec import Addresses, service_specs
from dspark.cli.supervision.supervisor import Supervisor
from dspark.client import AsyncClient

_WARM_UP_TIMEOUT_S = 300.0


@asynccontextmanager
async def running_services(
    config: ServicesConfig,
    model: PreparedModel,
    addresses: Addresses,
    sockets: Path,
    progress: Progress,
) -> AsyncIterator[Supervisor]:
    """Services that are ready and warm; they have ended when the block is left.

    The model is one that ``prepared_model`` let pass. Raises CliError if they do not get ready.
    """
    view = _StartView()
    supervisor = Supervisor(
        service_specs(config, model, addresses, sockets), log_dir(), view.update, progress.note
    )
    async with supervisor:
        with progress.part(f"starting the services for {model.name}") as part:
            view.part = part
            await supervisor.wait_ready()
        view.part = None
        with progress.part("warming up"):
            await warm_up(addresses.grpc)
        yield supervisor


class _StartView:
    """Shows the services' progress lines in the part that runs, if one does."""

    def __init__(self) -> None:
        self.part: Part | None = None

    def update(self, service: str, line: str) -> None:
        if self.part is not None:
            self.part.update(f"{service}: {line}")


async def warm_up(target: str) -> None:
    """One tiny completion, so that the first user does not pay for first-time work."""
    async with AsyncClient(target) as client:
        await client.generate(
            "Hello", max_tokens=8, temperature=0, ignore_eos=True, timeout=_WARM_UP_TIMEOUT_S
        )
