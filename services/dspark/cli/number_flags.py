"""Numbers on the command line: an error says what is allowed."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """At least 1."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def counts(text: str) -> tuple[int, ...]:
    """Some of them, with commas, each once."""
    return tuple(dict.fromkeys(count(part) for part in text.split(",")))


def number_from_0(text: str) -> float:
    """Finite, and 0 or more."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0")
    return value


def number_above_0(text: str) -> float:
    """Finite."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _number(text: str) -> float:
    """NaN for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
