"""Checks of figures that a person gives."""

from __future__ import annotations

from typing import Any


def at_least(least: float, owner: Any, *names: str) -> None:
    """Raises ValueError that names the first of the owner's fields below ``least``."""
    for name in names:
        if not getattr(owner, name) >= least:
            raise ValueError(f"{name} must be at least {least:g}")


def shares(owner: Any, *names: str) -> None:
    """Raises ValueError that names the first of the owner's fields outside 0 to 1."""
    for name in names:
        if not 0.0 <= getattr(owner, name) <= 1.0:
            raise ValueError(f"{name} must be from 0 to 1")
