"""``dspark eval``: what a weight dtype costs in quality, by text and by kind of prompt."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from dspark.cli.evaluation.config import EvalConfig
from dspark.cli.evaluation.inputs import read_inputs
from dspark.cli.evaluation.planning import make_plan
from dspark.cli.evaluation.report import evaluation_report
from dspark.cli.evaluation.sides import run_sides
from dspark.cli.evaluation.table import prompts_table, texts_table
from dspark.cli.json_output import check_writable, write_json
from dspark.cli.models.prepare import prepare
from dspark.cli.progress import Progress
from dspark.config import add_arguments, from_namespace

NAME = "eval"
HELP = "compare a model's weight dtypes: perplexity of texts, agreement on prompts"


def add_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--text",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="text to predict; may be given several times",
    )
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help='prompts to continue: JSON list of {"kind", "user", "prompt"}; default: none',
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write the results there; default: nowhere"
    )
    add_arguments(parser, EvalConfig)


def run(arguments: argparse.Namespace) -> int:
    config = from_namespace(EvalConfig, arguments)
    if arguments.json:
        check_writable(arguments.json)
    inputs = read_inputs(arguments.text, arguments.prompts)
    progress = Progress()
    model = prepare(config.model, progress)
    with progress.part("encoding texts and prompts"):
        plan = make_plan(inputs, config, model.directory)
    report = {"model": model.name, "context": config.context, "max_tokens": config.max_tokens}
    report |= evaluation_report(inputs, *run_sides(plan, config, model.directory, progress))
    if arguments.json:
        write_json(arguments.json, report)
    _show(report)
    return 0


def _show(report: dict[str, Any]) -> None:
    console = Console(soft_wrap=False)
    if report["texts"]:
        console.print(texts_table(report))
    if report["kinds"]:
        console.print(prompts_table(report))
