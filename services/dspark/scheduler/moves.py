"""Requests that went on at another verifier: why, and what became of their K/V."""

from __future__ import annotations

from collections import Counter
from enum import Enum


class MoveReason(Enum):
    """Why a request left its verifier."""

    BALANCE = "balance"
    DRAIN = "drain"
    LOST = "lost"


class MoveWay(Enum):
    """How its K/V came to be at the other one."""

    RECOMPUTE = "recompute"
    SHIP = "ship"


# Requests that moved, by reason and way.
Moves = Counter[tuple[MoveReason, MoveWay]]
