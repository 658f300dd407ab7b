"""`dspark drain`: lets a verifier run empty, so that it can be stopped."""

from __future__ import annotations

import argparse
import asyncio

from dspark.cli.client_access import ClientAccess, files_of
from dspark.cli.failure import CliError
from dspark.cli.number_flags import number_from_0
from dspark.cli.scheduler_client import drain_worker
from dspark.config import add_arguments
from dspark.transport_security.tls_files import TlsFiles

NAME = "drain"
HELP = "move the requests of a verifier to others, and give it no new ones"
DEFAULT_SCHEDULER = "127.0.0.1:50052"
POLL_S = 0.2


def add_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "worker", help="address of the verifier, as the scheduler's metrics have it"
    )
    parser.add_argument(
        "--scheduler",
        default=DEFAULT_SCHEDULER,
        help="address of the scheduler (default %(default)s); each has to be told",
    )
    parser.add_argument("--resume", action="store_true", help="give it requests again")
    parser.add_argument(
        "--timeout-s",
        type=number_from_0,
        default=60.0,
        help="seconds to wait until it is empty, at most (default %(default)s); 0: none",
    )
    add_arguments(parser.add_argument_group("access"), ClientAccess)


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_run(arguments, files_of(arguments)))


async def _run(arguments: argparse.Namespace, tls: TlsFiles | None) -> int:
    target, worker = arguments.scheduler, arguments.worker
    num_left = await drain_worker(target, worker, tls, resume=arguments.resume)
    if arguments.resume:
        print(f"{worker} gets requests again")
        return 0
    give_up_at = asyncio.get_running_loop().time() + arguments.timeout_s
    while num_left and asyncio.get_running_loop().time() < give_up_at:
        await asyncio.sleep(POLL_S)
        num_left = await drain_worker(target, worker, tls)
    if num_left and arguments.timeout_s:
        raise CliError(f"{worker} still has {num_left} requests; it gets no new ones")
    print(f"{worker} has {num_left} requests, and gets no new ones")
    return 0
