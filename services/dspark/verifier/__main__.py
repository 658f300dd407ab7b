"""``python -m dspark.verifier``: one model behind dspark.v1.VerifierService."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

import uvloop

from dspark.config import bad_settings_end, parse
from dspark.garbage import keep_what_is_there
from dspark.telemetry.process import telemetry
from dspark.verifier.allocator import keep_freed_memory
from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, ModelRefused, Progress
from dspark.verifier.server import serve

log = logging.getLogger("dspark.verifier")

EXIT_REFUSED = 2


def load(config: VerifierConfig, progress: Progress) -> LoadedModel:
    """Load the model; torch is imported here, on the engine's thread, while the server listens."""
    progress("importing torch")
    from dspark.verifier.model.loader import load_model

    loaded = load_model(config, progress)
    keep_what_is_there()
    keep_freed_memory()
    return loaded


def print_progress(line: str) -> None:
    """Progress lines are read by whoever started the process."""
    print(f"progress: {line}", file=sys.stderr, flush=True)


def log_progress(line: str) -> None:
    """For readers who want nothing but JSON."""
    log.info("%s", line)


async def run(config: VerifierConfig) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await serve(config, load, log_progress if config.logs_json else print_progress, stop)
    except ModelRefused as refusal:
        if config.logs_json:
            log.error("%s: %s", config.model, refusal)
        else:
            print(f"error: {config.model}: {refusal}", file=sys.stderr, flush=True)
        return EXIT_REFUSED
    return 0


def main() -> None:
    config = parse(VerifierConfig, "Serve one model to DSpark schedulers.")
    with bad_settings_end("verifier"), telemetry("verifier", config):
        code = uvloop.run(run(config))
    sys.stdout.flush()
    # A model that is still loading must not keep the process alive.
    os._exit(code)


if __name__ == "__main__":
    main()
