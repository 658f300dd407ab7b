"""The results of a simulation for a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "policy": lambda run: str(run["policy"]),
    "load": lambda run: f"{run['load']:g}",
    "tok/s": lambda run: f"{run['tokens_per_s']:.0f}",
    "good": lambda run: f"{run['good_share']:.0%}",
    "TTFT": lambda run: _pair(run["ttft_ms"]),
    "TPOT": lambda run: _pair(run["tpot_ms"]),
    "acc.": lambda run: f"{run['acceptance_length']:.2f}",
    "batch": lambda run: f"{run['batch_size']:.1f}",
    "rows": lambda run: f"{run['rows_per_step']:.0f}",
    "price": lambda run: f"{run['price']:.2f}",
    "busy": lambda run: f"{run['verifiers_busy']:.0%}",
}


def results_table(reports: Sequence[dict[str, Any]], load_name: str) -> Table:
    """A row a run; the JSON output has the rest."""
    table = Table(
        title=f"load is {load_name}; times are p50/p99 in ms; price is tokens a ms",
        box=SIMPLE_HEAD,
        padding=(0, 0),
    )
    for column in _COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for each in reports:
        table.add_row(*(show(each) for show in _COLUMNS.values()))
    return table


def refusals(reports: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each run in which not all requests were served."""
    return [
        f"{run['policy']} at {run['load']:g}: {run['refused']} of "
        f"{run['requests'] + run['refused']} requests refused: "
        + ", ".join(f"{count} {reason}" for reason, count in run["refusals"].items())
        for run in reports
        if run["refused"]
    ]


def _pair(values: dict[str, float]) -> str:
    return f"{values['p50']:.3g}/{values['p99']:.3g}" if values["p99"] < 1e3 else _rounded(values)


def _rounded(values: dict[str, float]) -> str:
    return f"{values['p50']:.0f}/{values['p99']:.0f}"
