"""A request that may take candidates in this step, and from whom."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.scheduler.policy.interface import RequestView
from dspark.scheduler.request import Request


@dataclass(frozen=True, slots=True)
class Wish:
    """``max_depth`` is that of the deepest node that could still be committed."""

    request: Request
    view: RequestView
    max_depth: int
    sources: tuple[str, ...]
