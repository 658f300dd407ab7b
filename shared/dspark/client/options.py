"""What a caller may ask for: prompt forms and keyword options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from dspark.request_class import RequestClass
from dspark.sampling import SpeculationParams
from dspark.structured_output import StructuredOutput

Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""Raw text (special tokens parsed, nothing added), token ids, or messages in OpenAI's shape."""


class ChatOptions(TypedDict, total=False):
    """How a conversation becomes a prompt and its answer is told; for conversations alone.

    The ``tools`` and ``tool_choice`` are in OpenAI's shape. ``whole_tool_calls`` is True in
    ``generate`` and False in ``stream``. The others: protos/dspark/v1/inference_service.proto.
    """

    tools: Sequence[Mapping[str, Any]] | None
    tool_choice: str | Mapping[str, Any] | None
    parallel_tool_calls: bool | None
    whole_tool_calls: bool | None
    add_generation_prompt: bool | None
    continue_final_message: bool | None
    chat_template: str | None
    chat_template_kwargs: Mapping[str, Any] | None
    documents: Sequence[Mapping[str, Any]] | None
    include_reasoning: bool | None
    reasoning_effort: str | None


class GenerateOptions(ChatOptions, total=False):
    """Keyword options of ``generate`` and ``stream``; absent or None means the server's default.

    ``stop`` has stop strings, ``request_class`` is a RequestClass or its word, ``speculation`` is
    True, False or SpeculationParams, ``timeout`` is a deadline for the whole call in seconds.
    ``logit_bias`` maps token ids to what is added to their logits, ``bad_words`` has texts or token
    runs, ``logprobs`` and ``prompt_logprobs`` say how many likely tokens to tell beside each.
    ``structured`` is what the text must be, such as ``StructuredOutput.json_schema({...})``. The
    others: protos/dspark/v1/inference_service.proto and sampling.proto.
    """

    model: str | None
    max_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    ignore_eos: bool | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None
    bad_words: Sequence[str | Sequence[int]] | None
    allowed_token_ids: Sequence[int] | None
    min_tokens: int | None
    logprobs: int | None
    prompt_logprobs: int | None
    structured: StructuredOutput | None
    speculation: bool | SpeculationParams | None
    cache_salt: str | None
    priority: int | None
    use_prefix_cache: bool | None
    request_class: RequestClass | str | None
    user: str | None
    request_id: str | None
    timeout: float | None
    include_stop_str_in_output: bool | None
    skip_special_tokens: bool | None


def with_whole_calls(options: GenerateOptions) -> GenerateOptions:
    """For answers that are collected: calls of tools come whole unless the caller says else."""
    if not options.get("tools") or options.get("whole_tool_calls") is not None:
        return options
    return {**options, "whole_tool_calls": True}
