"""``python -m dspark.verifier.evaluation ROLE FOLDER``: one side of an evaluation.

FOLDER holds the plan and receives the result; the other flags are the verifier's. Progress lines
go to stderr.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import sys
from pathlib import Path

from dspark.config import add_arguments, from_namespace
from dspark.verifier.config import VerifierConfig
from dspark.verifier.evaluation.roles import ROLES, evaluate
from dspark.verifier.evaluation.workspace import Workspace
from dspark.verifier.interfaces import ModelRefused

_REFUSED = 2
_FAILED = 1
# The checks of a loaded model need some room too.
_LEAST_KV_TOKENS = 1024


def main() -> None:
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    arguments = _arguments()
    try:
        sys.exit(_run(arguments))
    except ModelRefused as refusal:
        _say(f"error: {refusal}")
        sys.exit(_REFUSED)
    except OSError as error:
        _say(f"error: {error.filename or arguments.folder}: {error.strerror}")
        sys.exit(_FAILED)


def _run(arguments: argparse.Namespace) -> int:
    workspace = Workspace(arguments.folder)
    plan = workspace.read_plan()
    # What is compared is what the flags say, whatever the environment sets for servers.
    config = from_namespace(VerifierConfig, arguments, environ={})
    config = dataclasses.replace(config, kv_tokens=_kv_tokens(plan.longest, config.block_size))
    _progress("importing torch")
    from dspark.verifier.model.loader import load_model

    model = load_model(config, _progress)
    evaluate(arguments.role, workspace, plan, model, config.block_size, _progress)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="One side of a comparison of weight dtypes.", allow_abbrev=False
    )
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("folder", type=Path, help="holds the plan and receives the result")
    add_arguments(parser, VerifierConfig)
    return parser.parse_args()


def _kv_tokens(longest: int, block_size: int) -> int:
    return max(-(-longest // block_size) * block_size, _LEAST_KV_TOKENS)


def _progress(line: str) -> None:
    _say(f"progress: {line}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
