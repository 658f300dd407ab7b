"""``dspark models``: what can be fetched, and what is here."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from dspark.cli.failure import CliError
from dspark.cli.models.known import KNOWN_MODELS
from dspark.cli.models.prepare import known_entry, prepare
from dspark.cli.progress import Progress

NAME = "models"
HELP = "list the models that can be fetched by name, or fetch one"


def add_parser(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="list them (the default)")
    fetch = actions.add_parser("fetch", help="fetch one and prepare it")
    fetch.add_argument("name", help="a name of the list")


def run(arguments: argparse.Namespace) -> int:
    return _fetch(arguments.name) if arguments.action == "fetch" else _list()


def _list() -> int:
    table = Table("name", "about", "licence", "download", "here")
    for model in KNOWN_MODELS.values():
        entry = known_entry(model)
        here = str(entry) if entry.is_dir() else "no"
        size = f"{model.download_bytes / 1e6:.0f} MB"
        table.add_row(model.name, model.about, model.licence, size, here)
    Console(soft_wrap=True).print(table)
    return 0


def _fetch(name: str) -> int:
    if name not in KNOWN_MODELS:
        raise CliError(
            f"{name!r} is no known model; there is {', '.join(KNOWN_MODELS)}", exit_code=2
        )
    print(prepare(name, Progress()).directory)
    return 0
