"""``dspark train report``: the course of trainings as one HTML file, the curves as inline SVG."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path

from dspark.training.curves import Curve, chart
from dspark.training.errors import TrainingFailed
from dspark.training.progress_file import SUFFIX, ProgressFile

# The loss is shown as the mean of so many steps at most; single steps are noise.
_MAX_POINTS = 200
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Training</title>
<style>body {{ font: 15px/1.5 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em }}
pre {{ background: #f4f4f4; padding: 1em; overflow: auto }}</style>
{body}
</html>
"""


def write_report(out: Path) -> Path:
    """``out``/report.html of all trainings in ``out``. Raises TrainingFailed if there is none."""
    courses = sorted(out.glob(f"*{SUFFIX}"))
    if not courses:
        raise TrainingFailed(f"{out} has no training's course ({SUFFIX}): train a source first")
    parts: list[str] = []
    for path in courses:
        parts.append(f"<h1>{html.escape(path.name.removesuffix(SUFFIX))}</h1>")
        parts += _charts(ProgressFile(path))
    card = out / "card.json"
    if card.exists():
        text = json.dumps(json.loads(card.read_text()), indent=1)
        parts.append(f"<h1>Card</h1><pre>{html.escape(text)}</pre>")
    report = out / "report.html"
    report.write_text(_PAGE.format(body="\n".join(parts)), encoding="utf-8")
    return report


def _charts(progress: ProgressFile) -> list[str]:
    losses = [(e["step"], e["loss"]) for e in progress.read() if "loss" in e]
    checks = [(e["step"], e["validation"]) for e in progress.read() if "validation" in e]
    parts = [chart("Loss of training", [Curve("loss", _thinned(losses))])]
    if checks:
        curves = [
            Curve(f"head {head + 1}", [(step, shares[head]) for step, shares in checks])
            for head in range(len(checks[0][1]))
        ]
        parts.append(chart("Held-out texts: first guess right", curves))
    return parts


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    width = -(-len(points) // _MAX_POINTS) or 1
    groups = [points[at : at + width] for at in range(0, len(points), width)]
    return [
        (sum(step for step, _ in group) / len(group), sum(loss for _, loss in group) / len(group))
        for group in groups
    ]
