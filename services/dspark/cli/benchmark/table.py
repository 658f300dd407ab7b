"""The benchmark's results for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

_COLUMNS = (
    "speculation",
    "in flight",
    "requests",
    "tokens",
    "tokens/s",
    "TTFT p50/p90 ms",
    "ITL p50/p90 ms",
    "TPOT p50 ms",
    "accept. length",
    "propose + forward + overhead ms",
)


def results_table(reports: Sequence[dict[str, Any]]) -> Table:
    table = Table()
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    for each in reports:
        step = each["step_ms"]
        table.add_row(
            each["speculation"],
            str(each["concurrency"]),
            str(each["requests"]),
            str(each["tokens"]),
            f"{each['tokens_per_s']:.1f}",
            f"{each['ttft_ms']['p50']:.0f} / {each['ttft_ms']['p90']:.0f}",
            f"{each['itl_ms']['p50']:.1f} / {each['itl_ms']['p90']:.1f}",
            f"{each['tpot_ms']['p50']:.1f}",
            f"{each['acceptance_length']:.2f}",
            f"{step['propose']:.2f} + {step['forward']:.2f} + {step['overhead']:.2f}",
        )
    return table


def sources_table(reports: Sequence[dict[str, Any]]) -> Table:
    table = Table("source", title="Candidates, all runs with speculation")
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
