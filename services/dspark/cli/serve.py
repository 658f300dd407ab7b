"""``dspark serve``: the four services as child processes, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import signal

from dspark.cli.failure import CliError
from dspark.cli.models.cache import cache_root
from dspark.cli.models.prepare import PreparedModel
from dspark.cli.progress import Progress
from dspark.cli.serve_config import ServeConfig
from dspark.cli.supervision.ports import claim_port, join
from dspark.cli.supervision.preflight import prepared_model
from dspark.cli.supervision.running import running_services
from dspark.cli.supervision.runtime_dir import runtime_dir
from dspark.cli.supervision.spec import DEPLOYMENT_VARIABLES, Addresses
from dspark.config import add_arguments, from_namespace

NAME = "serve"
HELP = "serve a model over HTTP and gRPC"
CALIBRATION_NAME = "calibration.json"
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def add_parser(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, ServeConfig)


def run(arguments: argparse.Namespace) -> int:
    _refuse_deployment_settings()
    config = _keeping_what_is_learnt(from_namespace(ServeConfig, arguments))
    http_port = claim_port(config.host, config.http_port, "--http-port")
    grpc_port = claim_port(config.host, config.grpc_port, "--grpc-port")
    addresses = Addresses(http=join(config.host, http_port), grpc=join(config.host, grpc_port))
    progress = Progress()
    model = prepared_model(config, progress)
    model = dataclasses.replace(model, name=config.served_model_name or model.name)
    text = greeting(model.name, config.host, http_port, grpc_port)
    try:
        asyncio.run(_serve(config, model, addresses, progress, text))
    except asyncio.CancelledError:
        progress.note("stopped")
    return 0


def _keeping_what_is_learnt(config: ServeConfig) -> ServeConfig:
    """A server goes on with the odds that the last one has learnt; see --calibration-file."""
    if config.calibration_file is not None or os.environ.get("DSPARK_CALIBRATION_FILE"):
        return config
    return dataclasses.replace(config, calibration_file=str(cache_root() / CALIBRATION_NAME))


def _refuse_deployment_settings() -> None:
    # Whoever sets them counts on them: to serve without would be worse than not to serve.
    given = [
        name for name, none in DEPLOYMENT_VARIABLES.items() if os.environ.get(name, none) != none
    ]
    if given:
        raise CliError(
            f"{', '.join(given)}: dspark serve has no TLS, no API keys and no ports of its own for "
            "a service's metrics or health; start the services one by one for that "
            "(docs/operations.md)",
            exit_code=2,
        )


async def _serve(
    config: ServeConfig,
    model: PreparedModel,
    addresses: Addresses,
    progress: Progress,
    greeting_text: str,
) -> None:
    _cancel_on_signals(progress)
    with runtime_dir() as sockets:
        async with running_services(config, model, addresses, sockets, progress) as supervisor:
            print(greeting_text, flush=True)
            await supervisor.wait_failed()


def _cancel_on_signals(progress: Progress) -> None:
    """The first signal cancels this task, which lets requests end; the second is in a hurry."""
    task = asyncio.current_task()
    assert task is not None
    notes = ["ending at once ...", "stopping ... (again to end at once)"]

    def cancel() -> None:
        # A third one must not disturb the killing.
        if notes:
            progress.note(notes.pop())
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, cancel)


def greeting(model: str, host: str, http_port: int, grpc_port: int) -> str:
    """What to show once the server answers: addresses, and a command that works as pasted."""
    reachable = _ANY_ADDRESS.get(host, host)
    url = f"http://{join(reachable, http_port)}"
    body = {"model": model, "messages": [{"role": "user", "content": "Say hello."}]}
    return "\n".join(
        (
            f"DSpark serves {model}",
            f"  HTTP  {url}",
            f"  gRPC  {join(reachable, grpc_port)}",
            "Try:",
            f"  curl {url}/v1/chat/completions -H 'Content-Type: application/json' "
            f"-d '{json.dumps(body | {'max_tokens': 64})}'",
            "Ctrl-C stops it.",
        )
    )
