"""What a caller may ask for: prompt forms and keyword options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict

from dspark.request_class import RequestClass
from dspark.sampling import SpeculationParams
from dspark.structured_output import StructuredOutput

Prompt: TypeAlias = str | Sequence[int] | Sequence[Mapping[str, str]]
"""Raw text (special tokens parsed, nothing added), token ids, or messages with role and content."""


class GenerateOptions(TypedDict, total=False):
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
