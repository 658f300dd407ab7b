"""The benchmark's results for a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "spec": lambda run: run["speculation"],
    "in flight": lambda run: str(run["concurrency"]),
    "tokens": lambda run: str(run["tokens"]),
    "tokens/s": lambda run: f"{run['tokens_per_s']:.1f}",
    "accepted": lambda run: f"{run['acceptance_length']:.2f}",
    "TTFT": lambda run: f"{run['ttft_ms']['p50']:.0f}",
    "ITL": lambda run: f"{run['itl_ms']['p50']:.1f}",
    "TPOT": lambda run: f"{run['tpot_ms']['p50']:.1f}",
    "forward": lambda run: f"{run['step_ms']['forward']:.2f}",
    "ahead": lambda run: f"{run['step_ms']['ahead']:.2f}",
    "overhead": lambda run: f"{run['step_ms']['overhead']:.2f}",
}


def results_table(reports: Sequence[dict[str, Any]]) -> Table:
    """A row a run, narrow enough for a terminal of 80 columns; the JSON output has the rest."""
    table = Table(
        title="Times are medians in ms; accepted is the mean of tokens a verify pass gives",
        box=SIMPLE_HEAD,
        padding=(0, 0),
    )
    for column in _COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for each in reports:
        table.add_row(*(show(each) for show in _COLUMNS.values()))
    return table


def sources_table(reports: Sequence[dict[str, Any]]) -> Table:
    table = Table("source", title="Guessed tokens in all runs", box=SIMPLE_HEAD, padding=(0, 0))
    for column in ("drafted", "accepted", "rate"):
        table.add_column(column, justify="right")
    totals: dict[str, list[int]] = {}
    for each in reports:
        for name, counts in each["sources"].items():
            total = totals.setdefault(name, [0, 0])
            total[0] += counts["drafted"]
            total[1] += counts["accepted"]
    for name, (drafted, accepted) in sorted(totals.items()):
        rate = accepted / drafted if drafted else 0.0
        table.add_row(name, str(drafted), str(accepted), f"{rate:.1%}")
    return table
