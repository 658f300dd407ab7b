"""The settings of the services, and the tables of docs/settings.md made from them.

``python tests/harness/setting_tables.py`` writes the tables anew.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from dspark.cli.serve_config import ServeConfig
from dspark.cli.service_settings import SERVICES, service_of
from dspark.config import flag_of, shown_value
from harness.repository import ROOT

PAGE = ROOT / "docs" / "settings.md"
_YES = "yes"
_HEAD = ("| flag | `dspark serve` | default | meaning |", "|---|---|---|---|")
_SERVE_HEAD = ("| flag | default | meaning |", "|---|---|---|")

Field = dataclasses.Field[Any]


def sections() -> dict[str, str]:
    """The table under each heading of the page."""
    own = [field for field in dataclasses.fields(ServeConfig) if service_of(field) is None]
    found = {"`dspark serve` alone": "\n".join((*_SERVE_HEAD, *map(_serve_row, own)))}
    for name, service in SERVICES.items():
        passed_on = {
            field.name: field
            for field in dataclasses.fields(ServeConfig)
            if service_of(field) is service
        }
        fields = sorted(dataclasses.fields(service), key=lambda each: bool(each.kw_only))
        found[name.capitalize()] = "\n".join((*_HEAD, *_rows(fields, passed_on)))
    return found


def with_tables(page: str) -> str:
    """The page with the table under each heading as it must be."""
    text, *parts = re.split(r"(?m)^(?=## )", page)
    by_heading = {part.partition("\n")[0].removeprefix("## "): part for part in parts}
    for heading, table in sections().items():
        before, mark, _ = by_heading[heading].partition("| flag |")
        assert mark, f"{PAGE.name} has no table under {heading}"
        by_heading[heading] = f"{before}{table}\n\n"
    return "".join([text, *by_heading.values()]).rstrip() + "\n"


def _rows(fields: Iterable[Field], passed_on: dict[str, Field]) -> Iterable[str]:
    for field in fields:
        mark = ""
        if served := passed_on.get(field.name):
            aliases = served.metadata["aliases"]
            mark = f"{_YES}; also {', '.join(f'`{each}`' for each in aliases)}" if aliases else _YES
        yield f"| `{flag_of(field.name)}` | {mark} | {_default(field)} | {_meaning(field)} |"


def _serve_row(field: Field) -> str:
    flags = (flag_of(field.name), *field.metadata.get("aliases", ()))
    names = ", ".join(f"`{flag}`" for flag in flags)
    return f"| {names} | {_default(field)} | {_meaning(field)} |"


def _default(field: Field) -> str:
    shown = shown_value(field.name, field.default)
    return f"`{shown}`" if shown else ""


def _meaning(field: Field) -> str:
    text = str(field.metadata["help"]).replace("|", "\\|")
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        text += " (required)"
    if choices := field.metadata.get("choices"):
        text += f"; {', '.join(f'`{each}`' for each in choices)}"
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
