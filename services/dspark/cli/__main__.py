"""The command line: ``dspark COMMAND``."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType

from dspark.argument_parser import ArgumentParser
from dspark.cli import (
    bench,
    chat,
    drain_command,
    eval_command,
    generate,
    index_command,
    keys_command,
    models_command,
    replay_command,
    serve,
    simulate_command,
    train_command,
)
from dspark.cli.failure import CliError
from dspark.config import SettingError
from dspark.errors import DSparkError, InvalidArgument, ModelNotFound

_COMMANDS: tuple[ModuleType, ...] = (
    serve,
    chat,
    generate,
    bench,
    eval_command,
    train_command,
    simulate_command,
    index_command,
    models_command,
    replay_command,
    keys_command,
    drain_command,
)
_FAILED = 1
_USAGE = 2
_INTERRUPTED = 130
_TERMINATED = 143


def build_parser() -> argparse.ArgumentParser:
    """Each command module has NAME, HELP, ``add_parser(parser)`` and ``run(arguments)``."""
    parser = ArgumentParser(
        prog="dspark",
        description="LLM inference with exact multi-source speculative decoding.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        command = commands.add_parser(module.NAME, help=module.HELP, description=module.HELP)
        module.add_parser(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns its exit code."""
    arguments = build_parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SettingError as error:
        return _fail(str(error), _USAGE)
    except CliError as error:
        return _fail(str(error), error.exit_code)
    except DSparkError as error:
        is_usage = isinstance(error, (InvalidArgument, ModelNotFound))
        return _fail(error.message, _USAGE if is_usage else _FAILED)
    except BrokenPipeError:
        _discard_output()
        return _FAILED
    except OSError as error:
        return _fail_on_output(error)


def _fail(message: str, code: int) -> int:
    print(f"dspark: {message}", file=sys.stderr)
    return code


def _fail_on_output(error: OSError) -> int:
    """Ends the command with one line if it was standard output that failed."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
        return _fail(f"cannot write to standard output: {error.strerror}", _USAGE)
    raise error


def _discard_output() -> None:
    """What is left to write would fail again when the interpreter ends."""
    with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the process through its clean-up, as Ctrl-C does."""
    raise SystemExit(_TERMINATED)


if __name__ == "__main__":
    main()
