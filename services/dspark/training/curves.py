"""Line charts as SVG text, without a plotting library."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, MARGIN = 640, 280, 48
_COLOURS = ("#1f6feb", "#d1495b", "#2a9d5c", "#a06cd5", "#e08e0b", "#4a4a4a")
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """``points`` are (step, value), by rising step."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Frame:
    steps: float
    low: float
    high: float

    def x(self, step: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * step / self.steps

    def y(self, value: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (value - self.low) / (self.high - self.low)


def chart(title: str, curves: Sequence[Curve]) -> str:
    """An ``svg`` element with axes, a legend and one line for each curve."""
    points = [point for curve in curves for point in curve.points]
    values = [value for _, value in points] or [0.0]
    low, high = min(0.0, *values), max(values)
    frame = _Frame(max([step for step, _ in points], default=1), low, high if high > low else 1.0)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="{MARGIN}" y="18" font-size="14">{html.escape(title)}</text>',
        *_axes(frame),
    ]
    for place, curve in enumerate(curves):
        parts += _line(curve, frame, _COLOURS[place % len(_COLOURS)], place)
    return "\n".join([*parts, "</svg>"])


def _axes(frame: _Frame) -> list[str]:
    parts: list[str] = []
    for tick in range(_TICKS + 1):
        value = frame.low + (frame.high - frame.low) * tick / _TICKS
        step, y = frame.steps * tick / _TICKS, frame.y(value)
        parts.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
        parts.append(
            f'<text x="{frame.x(step):.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">'
            f"{_short(step, frame.steps)}</text>"
        )
    return parts


def _short(step: float, most: float) -> str:
    """Whole numbers, unless all are so small that they would look alike."""
    return f"{step:.0f}" if most >= 10 * _TICKS else f"{step:.3g}"


def _line(curve: Curve, frame: _Frame, colour: str, place: int) -> list[str]:
    path = " ".join(f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value in curve.points)
    x = MARGIN + 90 * place
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        f'<text x="{x}" y="{HEIGHT - 8}" fill="{colour}">{html.escape(curve.name)}</text>',
    ]
