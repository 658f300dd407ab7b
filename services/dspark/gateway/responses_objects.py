"""The objects of the Responses API (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.openai_responses import speculation_object
from dspark.gateway.responses_types import FunctionTool, ResponsesBody
from dspark.gateway.service_tier import class_of_tier, tier_of_class
from dspark.gateway.tool_choice import ToolChoice
from dspark.sampling import FinishReason, Usage

IN_PROGRESS = "in_progress"
COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"


def response_shell(
    body: ResponsesBody, model: str, response_id: str, created_at: int
) -> dict[str, Any]:
    """A response that has only begun: what was asked, with nothing of the answer."""
    tier = body.service_tier and tier_of_class(class_of_tier(body.service_tier))
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
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": {"effort": body.reasoning and body.reasoning.effort, "summary": None},
        **({"service_tier": tier} if tier else {}),
        "store": False,
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "text": {"format": _format_object(body)},
        "tool_choice": _choice_object(body.tool_choice),
        "tools": [_tool_object(tool) for tool in body.tools or ()],
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": body.user,
    }


def ended_response(
    shell: dict[str, Any], output: Sequence[dict[str, Any]], started: Started, end: Completed
) -> dict[str, Any]:
    """The response with its answer; one that reached its limit is incomplete."""
    is_whole = end.finish_reason is FinishReason.STOP
    reason = "max_output_tokens" if end.finish_reason is FinishReason.LENGTH else "aborted"
    return {
        **shell,
        "status": COMPLETED if is_whole else INCOMPLETE,
        "incomplete_details": None if is_whole else {"reason": reason},
        "output": list(output),
        "usage": response_usage(end.usage, end.reasoning_tokens),
        "seed": started.seed,
        "speculation": speculation_object(end),
    }


def response_usage(usage: Usage, reasoning_tokens: int | None) -> dict[str, Any]:
    """Reasoning that is not told from text counts as none."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens or 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _format_object(body: ResponsesBody) -> dict[str, Any]:
    wanted = None if body.text is None else body.text.format
    if wanted is None:
        return {"type": "text"}
    fields = {
        "type": wanted.type,
        "name": wanted.name,
        "description": wanted.description,
        "schema": wanted.schema_,
        "strict": wanted.strict,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _choice_object(choice: ToolChoice | None) -> Any:
    if choice is None:
        return "auto"
    if choice.function:
        return {"type": "function", "name": choice.function}
    return choice.mode.value


def _tool_object(tool: FunctionTool) -> dict[str, Any]:
    return {
        "type": tool.type,
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": bool(tool.strict),
    }
