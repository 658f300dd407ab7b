"""Completions as a client gets them, made by hand."""

from __future__ import annotations

from typing import Any

from dspark.client import Completion, FinishReason
from dspark.sampling import SpeculationStats, StepBreakdown, Usage


def make_completion(token_ids: tuple[int, ...] = (1, 2, 3), **changes: Any) -> Completion:
    """A completion whose counts fit its tokens; ``changes`` replace fields."""
    fields: dict[str, Any] = {
        "request_id": "r",
        "model": "m",
        "seed": 0,
        "text": "text",
        "token_ids": token_ids,
        "finish_reason": FinishReason.LENGTH,
        "stop_reason": None,
        "usage": Usage(prompt_tokens=5, completion_tokens=len(token_ids)),
        "speculation": SpeculationStats(),
        "steps": StepBreakdown(),
        "ttft_ms": 10.0,
        "itl_ms": (20.0,) * max(len(token_ids) - 1, 0),
        "elapsed_ms": 50.0,
    }
    return Completion(**(fields | changes))
