"""An evaluation's results for a person."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table


def texts_table(report: dict[str, Any]) -> Table:
    """A row a text; the last column is above 1 where the judged weights predict it worse."""
    reference, other = report["reference"]["dtype"], report["other"]["dtype"]
    table = _table("Perplexity of each text", "text", ("tokens", reference, other, "ratio"))
    for text in report["texts"]:
        both = text["perplexity"]
        table.add_row(
            escape(text["file"]),
            str(text["tokens"]),
            f"{both['reference']:.4g}",
            f"{both['other']:.4g}",
            f"{text['ratio']:.4f}",
        )
    return table


def prompts_table(report: dict[str, Any]) -> Table:
    """A row a kind of prompt, and one for all."""
    reference, other = report["reference"]["dtype"], report["other"]["dtype"]
    title = f"{other} along {reference}'s greedy continuations; prefix is the mean that both share"
    columns = ("prompts", "tokens", "same top", "KL (nats)", "prefix", "of", "identical")
    table = _table(title, "kind", columns)
    for row in report["kinds"]:
        _add_agreement(table, escape(row["kind"]) or "-", row)
    table.add_section()
    _add_agreement(table, "overall", report["overall"])
    return table


def _add_agreement(table: Table, name: str, row: dict[str, Any]) -> None:
    table.add_row(
        name,
        str(row["prompts"]),
        str(row["tokens"]),
        f"{row['same_top']:.2%}",
        f"{row['kl']:.2e}",
        f"{row['common_prefix']:.1f}",
        f"{row['length']:.1f}",
        str(row["identical"]),
    )


def _table(title: str, first: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
