"""How client commands find a server: the one that is named, the local one, or embedded services."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from dspark.cli.address import grpc_target
from dspark.cli.client_access import ClientAccess, files_of
from dspark.cli.embedded import embedded_services
from dspark.cli.failure import CliError
from dspark.cli.progress import Progress
from dspark.cli.server_in_use import check_flags, check_model
from dspark.cli.services_config import ServicesConfig
from dspark.client import AsyncClient, Client
from dspark.client.async_client import DEFAULT_TARGET
from dspark.client.event_loop import BackgroundLoop
from dspark.config import add_arguments, from_namespace


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags that say which server to use, and how to make an embedded one."""
    server = parser.add_argument_group(
        "server",
        "The API key is taken from the variable DSPARK_API_KEY. Flags below this group are for "
        "services that start for this command; of a server that runs already, only --model is "
        "asked for: it must serve that model.",
    )
    server.add_argument(
        "--base-url",
        help="server to use: host:port (gRPC; grpcs://host:port with TLS) or http(s)://host:port; "
        f"default: {DEFAULT_TARGET} if it answers, else embedded services",
    )
    server.add_argument("--embedded", action="store_true", help="start services for this command")
    add_arguments(server, ClientAccess)
    add_arguments(parser, ServicesConfig)


@asynccontextmanager
async def serving_target(arguments: argparse.Namespace, progress: Progress) -> AsyncIterator[str]:
    """The gRPC address of a server that is ready.

    Raises CliError if the named one is not, or if flags ask for what a running one does not do.
    """
    if arguments.base_url and arguments.embedded:
        raise CliError("--base-url and --embedded exclude each other", exit_code=2)
    if not arguments.embedded:
        named = arguments.base_url is not None
        files = files_of(arguments)
        target = grpc_target(arguments.base_url, files) if named else DEFAULT_TARGET
        if named:
            check_flags(arguments, target)
        if await _is_ready(target, arguments):
            yield target
            return
        if named:
            raise CliError(f"no DSpark server is ready at {target}")
        progress.note(f"no server at {target}: starting embedded services")
    config = from_namespace(ServicesConfig, arguments)
    async with embedded_services(config, progress) as target:
        yield target


@contextmanager
def connected(arguments: argparse.Namespace, progress: Progress) -> Iterator[Client]:
    """A client of ``serving_target`` for code that is not async."""
    loop = BackgroundLoop.acquire()
    serving = serving_target(arguments, progress)
    try:
        target = loop.run(serving.__aenter__())
        try:
            with Client(target, tls=files_of(arguments)) as client:
                yield client
        finally:
            loop.run(serving.__aexit__(None, None, None))
    finally:
        loop.release()


async def _is_ready(target: str, arguments: argparse.Namespace) -> bool:
    async with AsyncClient(target, tls=files_of(arguments)) as client:
        if not await client.is_ready():
            return False
        check_flags(arguments, target)
        await check_model(arguments, client)
        return True
