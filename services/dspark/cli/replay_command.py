"""``dspark replay``: compares policies on the decisions that a scheduler logged."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dspark.cli.failure import CliError
from dspark.cli.json_output import check_writable, write_json
from dspark.config import with_flag
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.decision_log import LoggedStep
from dspark.scheduler.decision_replay import DecisionReplay, ReplayTotals
from dspark.scheduler.logged_calibration import calibration_errors
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import PolicySettings

NAME = "replay"
HELP = "compare speculation policies on the decisions that a scheduler logged"
_USAGE = 2
_SETTINGS = PolicySettings()


def add_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, help="file of --decision-log of dspark serve")
    parser.add_argument(
        "--policy",
        action="append",
        choices=tuple(POLICIES),
        help="policy to compare; may be given several times; default: all",
    )
    parser.add_argument(
        "--num-draft-tokens",
        type=int,
        default=_SETTINGS.num_draft_tokens,
        help="candidate tokens of a request in a step under 'fixed' (default %(default)s)",
    )
    parser.add_argument(
        "--min-survival",
        type=float,
        default=_SETTINGS.min_survival,
        help="probability (0 to 1) from which 'threshold' verifies a candidate token "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--min-gain",
        type=float,
        default=_SETTINGS.min_gain,
        help="predicted gain, in tokens for each request, below which 'economic' asks for nothing "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write the results there, too; default: nowhere"
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        settings = PolicySettings(
            arguments.num_draft_tokens, arguments.min_survival, arguments.min_gain
        )
        # The limits of these settings are the scheduler's.
        SchedulerConfig(
            verifier=("localhost:1",),
            num_draft_tokens=settings.num_draft_tokens,
            min_survival=settings.min_survival,
            min_gain=settings.min_gain,
        )
    except ValueError as error:
        raise CliError(with_flag(str(error), SchedulerConfig), _USAGE) from error
    if arguments.json is not None:
        check_writable(arguments.json)
    totals = {
        name: DecisionReplay(POLICIES[name](settings)).run(logged_steps(arguments.log))
        for name in arguments.policy or POLICIES
    }
    errors = calibration_errors(logged_steps(arguments.log))
    console = Console()
    console.print(_table(totals))
    console.print(_errors_table(errors))
    if arguments.json is not None:
        policies = {name: _report(each) for name, each in totals.items()}
        write_json(arguments.json, {"policies": policies, "calibration_errors": errors})
    return 0


def logged_steps(path: Path) -> Iterator[LoggedStep]:
    """Raises CliError for a file that cannot be read, or that is no log of decisions."""
    try:
        with path.open(encoding="utf-8") as file:
            is_empty = True
            for number, line in enumerate(file, start=1):
                is_empty = False
                try:
                    yield LoggedStep.from_json(line)
                except ValueError as error:
                    raise CliError(f"{path}, line {number}: {error}", _USAGE) from error
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}", _USAGE) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: is not UTF-8 text", _USAGE) from error
    if is_empty:
        raise CliError(f"{path}: no decisions in it", _USAGE)


def _report(totals: ReplayTotals) -> dict[str, float]:
    return {
        **asdict(totals),
        "tokens_per_s": totals.tokens_per_s,
        "acceptance_length": totals.acceptance_length,
    }


def _errors_table(errors: dict[str, float]) -> Table:
    table = Table("source", title="Predicted acceptance as logged", box=SIMPLE_HEAD)
    table.add_column("calibration error", justify="right")
    for name, error in errors.items():
        table.add_row(name, f"{error:.1%}")
    return table


def _table(totals: dict[str, ReplayTotals]) -> Table:
    table = Table("policy", title="Estimates over the logged steps", box=SIMPLE_HEAD)
    for column in ("steps", "tokens", "tokens/s", "accepted", "nodes", "asked", "unknown"):
        table.add_column(column, justify="right")
    for name, each in totals.items():
        table.add_row(
            name,
            str(each.steps),
            str(each.tokens),
            f"{each.tokens_per_s:.1f}",
            f"{each.acceptance_length:.2f}",
            f"{each.nodes_per_pass:.1f}",
            str(each.asked),
            str(each.unknown),
        )
    return table
