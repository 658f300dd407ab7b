"""The command line: ``dspark COMMAND``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType

from dspark.cli import bench, chat, generate, models_command, serve
from dspark.cli.failure import CliError
from dspark.errors import DSparkError

_COMMANDS: tuple[ModuleType, ...] = (serve, chat, generate, bench, models_command)
_INTERRUPTED = 130
_TERMINATED = 143


def build_parser() -> argparse.ArgumentParser:
    """Each command module has NAME, HELP, ``add_parser(parser)`` and ``run(arguments)``."""
    parser = argparse.ArgumentParser(
        prog="dspark", description="LLM inference with exact multi-source speculative decoding."
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
        return int(arguments.run(arguments))
    except CliError as error:
        print(f"dspark: {error}", file=sys.stderr)
        return error.exit_code
    except DSparkError as error:
        print(f"dspark: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the process through its clean-up, as Ctrl-C does."""
    raise SystemExit(_TERMINATED)


if __name__ == "__main__":
    main()
