"""Lengths of prompts and outputs: how they are told, and how they are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol


class Lengths(Protocol):
    """``draw(u)`` is a length in tokens, at least 1, for ``u`` from 0 to below 1."""

    def draw(self, u: float) -> int: ...


@dataclass(frozen=True, slots=True)
class Uniform:
    """All lengths from ``least`` to ``most`` alike; both the same is one length."""

    least: int
    most: int

    def draw(self, u: float) -> int:
        return self.least + int(u * (self.most - self.least + 1))


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Most are short and a few are long; ``sigma`` is that of the logarithm."""

    median: int
    sigma: float

    def draw(self, u: float) -> int:
        quantile = NormalDist().inv_cdf(min(max(u, 1e-9), 1 - 1e-9))
        return max(1, round(self.median * math.exp(self.sigma * quantile)))


def parse_lengths(text: str) -> Lengths:
    """``256``, ``64-512`` (uniform) or ``256~0.8`` (log-normal); raises ValueError."""
    form = f"{text!r} is no length: use 256, 64-512 or 256~0.8 (median ~ sigma of the logarithm)"
    try:
        if "~" in text:
            median, sigma = text.split("~")
            found: Lengths = LogNormal(int(median), float(sigma))
            is_sound = int(median) >= 1 and 0 <= float(sigma) <= 5
        else:
            least, dash, most = text.partition("-")
            found = Uniform(int(least), int(most if dash else least))
            is_sound = 1 <= found.least <= found.most
    except ValueError as error:
        raise ValueError(form) from error
    if not is_sound:
        raise ValueError(form)
    return found
