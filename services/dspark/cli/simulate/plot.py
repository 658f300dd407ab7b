"""The results of a simulation as one HTML page of charts over the load."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dspark.cli.failure import CliError
from dspark.training.curves import Curve, chart

_USAGE = 2
_Figure = Callable[[dict[str, Any]], float]
_CHARTS: dict[str, _Figure] = {
    "Throughput, tokens a second": lambda run: run["tokens_per_s"],
    "Goodput, requests a second": lambda run: run["goodput_per_s"],
    "Time to first token, p50 in ms": lambda run: run["ttft_ms"]["p50"],
    "Time to first token, p99 in ms": lambda run: run["ttft_ms"]["p99"],
    "Time per output token, p50 in ms": lambda run: run["tpot_ms"]["p50"],
    "Time per output token, p99 in ms": lambda run: run["tpot_ms"]["p99"],
    "Price, tokens a ms": lambda run: run["price"],
    "Tokens a verify pass": lambda run: run["acceptance_length"],
    "Requests a step": lambda run: run["batch_size"],
}
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Simulation</title>
<style>body {{ font: 15px/1.5 sans-serif; max-width: 50em; margin: 2em auto }}</style>
<h1>Simulation</h1>
<p>{about}</p>
{charts}
</html>
"""


def page(reports: Sequence[dict[str, Any]], about: str) -> str:
    """One chart for each kind of figure, with a line for each policy."""
    charts = [chart(title, _curves(reports, figure)) for title, figure in _CHARTS.items()]
    return _PAGE.format(about=html.escape(about), charts="\n".join(charts))


def write_page(path: Path, reports: Sequence[dict[str, Any]], about: str) -> None:
    """Raises CliError."""
    try:
        path.write_text(page(reports, about), encoding="utf-8")
    except OSError as error:
        raise CliError(f"--plot {path}: {error.strerror}", _USAGE) from error


def _curves(reports: Sequence[dict[str, Any]], figure: _Figure) -> list[Curve]:
    policies = dict.fromkeys(run["policy"] for run in reports)
    return [
        Curve(
            policy,
            sorted((run["load"], figure(run)) for run in reports if run["policy"] == policy),
        )
        for policy in policies
    ]
