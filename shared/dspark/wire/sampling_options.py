"""Sampling parameters that change logits or tell of them, on the wire: unset means neutral."""

from __future__ import annotations

from typing import Any

from dspark.sampling import SamplingParams
from dspark.v1 import sampling_pb2 as pb

OPTION_SCALARS = (
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "min_tokens",
    "logprobs",
    "prompt_logprobs",
)
_NEUTRAL = SamplingParams()


def options_to_proto(params: SamplingParams, message: pb.SamplingParams) -> None:
    """Set what is not neutral: most requests have none of it."""
    for name in OPTION_SCALARS:
        if (value := getattr(params, name)) != getattr(_NEUTRAL, name):
            setattr(message, name, value)
    for token_id, bias in params.logit_bias:
        message.logit_bias.add(token_id=token_id, bias=bias)
    for word in params.bad_words:
        message.bad_words.add(token_ids=word)
    message.allowed_token_ids.extend(sorted(params.allowed_token_ids))


def stated_options(message: pb.SamplingParams) -> dict[str, Any]:
    """The scalars that are set, by name."""
    return {name: getattr(message, name) for name in OPTION_SCALARS if message.HasField(name)}


def stated_lists(message: pb.SamplingParams) -> dict[str, Any]:
    """The lists by name; empty where nothing is set."""
    return {
        "logit_bias": tuple((entry.token_id, entry.bias) for entry in message.logit_bias),
        "bad_words": tuple(tuple(word.token_ids) for word in message.bad_words),
        "allowed_token_ids": tuple(message.allowed_token_ids),
    }
