"""Whether a running server does what the flags ask for."""

from __future__ import annotations

import argparse
import dataclasses

from dspark.cli.failure import CliError
from dspark.cli.models.prepare import served_name
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient
from dspark.config import flag_of

_USAGE = 2
_HINT = "--embedded starts services for this command"


def check_flags(arguments: argparse.Namespace, target: str) -> None:
    """Raises CliError for a flag that only services which are started here could heed."""
    for field in dataclasses.fields(ServicesConfig):
        if field.name != "model" and hasattr(arguments, field.name):
            problem = (
                f"{flag_of(field.name)} is set when services start, but the server at {target} runs"
            )
            raise CliError(f"{problem}; {_HINT}", _USAGE)


async def check_model(arguments: argparse.Namespace, client: AsyncClient) -> None:
    """Raises CliError if ``--model`` is given and is not what the server serves."""
    if not hasattr(arguments, "model"):
        return
    served = [model.id for model in await client.models()]
    if served_name(arguments.model) not in served:
        problem = f"the server at {client.target} serves {', '.join(served)}"
        raise CliError(f"--model {arguments.model}: {problem}; {_HINT}", _USAGE)
