"""The objects of the Responses API (pure)."""

from __future__ import annotations

from typing import Any

from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.openai_responses import speculation_object
from dspark.gateway.responses_types import ResponsesBody
from dspark.sampling import FinishReason, Usage

IN_PROGRESS = "in_progress"
COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"


def response_shell(
    body: ResponsesBody, model: str, response_id: str, created_at: int
) -> dict[str, Any]:
    """A response that has only begun: what was asked, with nothing of the answer."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "status": IN_PROGRESS,
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata or {},
        "model": model,
        "output": [],
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": body.user,
    }


def output_text(text: str) -> dict[str, Any]:
    """A part of a message's content."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def output_message(item_id: str, status: str, text: str | None) -> dict[str, Any]:
    """The assistant's message; without text one that has only begun."""
    return {
        "id": item_id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [] if text is None else [output_text(text)],
    }


def ended_response(
    shell: dict[str, Any], item_id: str, text: str, started: Started, end: Completed
) -> dict[str, Any]:
    """The response with its answer; one that reached its limit is incomplete."""
    is_whole = end.finish_reason is FinishReason.STOP
    status = COMPLETED if is_whole else INCOMPLETE
    reason = "max_output_tokens" if end.finish_reason is FinishReason.LENGTH else "aborted"
    return {
        **shell,
        "status": status,
        "incomplete_details": None if is_whole else {"reason": reason},
        "output": [output_message(item_id, status, text)],
        "usage": response_usage(end.usage),
        "seed": started.seed,
        "speculation": speculation_object(end),
    }


def response_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
