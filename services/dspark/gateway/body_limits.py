"""How large a request's body may be, and how long it may take to come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """``timeout_s`` None means that a body may take any time to come."""

    max_bytes: int
    max_values: int
    timeout_s: float | None = None
