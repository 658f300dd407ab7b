"""Ranges of the sampling parameters that change logits or tell of them, and what they leave."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dspark.errors import InvalidArgument

if TYPE_CHECKING:
    from dspark.sampling import SamplingParams

MAX_PENALTY = 2.0
MIN_REPETITION_PENALTY = 1e-3
MAX_REPETITION_PENALTY = 1e3
MAX_LOGIT_BIAS = 100.0
MAX_LOGIT_BIAS_ENTRIES = 1024
MAX_BAD_WORDS = 1024
MAX_BAD_WORD_TOKENS = 256
MAX_TOP_LOGPROBS = 20


def check_options(params: SamplingParams, vocab_size: int | None) -> None:
    """Raise InvalidArgument that names the first field out of range."""
    for check in _CHECKS:
        check(params, vocab_size)


def check_leaves_tokens(
    params: SamplingParams, eos_token_ids: frozenset[int], vocab_size: int
) -> None:
    """Raise InvalidArgument where no token at all may be the first one."""
    banned = {word[0] for word in params.bad_words if len(word) == 1}
    field = "bad_words"
    if params.min_tokens:
        field = "min_tokens"
        banned |= params.stop_token_ids
        banned |= frozenset() if params.ignore_eos else eos_token_ids
    num_allowed = len(params.allowed_token_ids) or vocab_size
    if len(banned) < num_allowed:
        return
    allowed = params.allowed_token_ids or range(vocab_size)
    if all(token_id in banned for token_id in allowed):
        raise InvalidArgument(field, "leaves no token that may be generated")


def _check_penalties(params: SamplingParams, vocab_size: int | None) -> None:
    low, high = MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY
    # A comparison with a NaN is false.
    if not low <= params.repetition_penalty <= high:
        raise InvalidArgument("repetition_penalty", f"must be from {low:g} to {high:g}")
    for name in ("presence_penalty", "frequency_penalty"):
        if not -MAX_PENALTY <= getattr(params, name) <= MAX_PENALTY:
            raise InvalidArgument(name, f"must be from {-MAX_PENALTY:g} to {MAX_PENALTY:g}")


def _check_bias(params: SamplingParams, vocab_size: int | None) -> None:
    name, given = "logit_bias", len(params.logit_bias)
    if given > MAX_LOGIT_BIAS_ENTRIES:
        raise InvalidArgument(name, f"has {given} entries; the limit is {MAX_LOGIT_BIAS_ENTRIES}")
    _check_ids(name, (token_id for token_id, _ in params.logit_bias), vocab_size)
    if len({token_id for token_id, _ in params.logit_bias}) < given:
        raise InvalidArgument(name, "must name no token twice")
    if not all(-MAX_LOGIT_BIAS <= bias <= MAX_LOGIT_BIAS for _, bias in params.logit_bias):
        raise InvalidArgument(
            name, f"must have values from {-MAX_LOGIT_BIAS:g} to {MAX_LOGIT_BIAS:g}"
        )


def _check_bad_words(params: SamplingParams, vocab_size: int | None) -> None:
    name, given = "bad_words", len(params.bad_words)
    if given > MAX_BAD_WORDS:
        raise InvalidArgument(name, f"has {given} token sequences; the limit is {MAX_BAD_WORDS}")
    for word in params.bad_words:
        if not 1 <= len(word) <= MAX_BAD_WORD_TOKENS:
            problem = f"one has {len(word)} tokens; it may have 1 to {MAX_BAD_WORD_TOKENS}"
            raise InvalidArgument(name, problem)
        _check_ids(name, word, vocab_size)


def _check_allowed(params: SamplingParams, vocab_size: int | None) -> None:
    _check_ids("allowed_token_ids", params.allowed_token_ids, vocab_size)


def _check_min_tokens(params: SamplingParams, vocab_size: int | None) -> None:
    if params.min_tokens < 0:
        raise InvalidArgument("min_tokens", "must be 0 or more")
    if params.min_tokens > params.max_tokens:
        raise InvalidArgument(
            "min_tokens", f"must be at most max_tokens, which is {params.max_tokens}"
        )


def _check_logprobs(params: SamplingParams, vocab_size: int | None) -> None:
    for name in ("logprobs", "prompt_logprobs"):
        count = getattr(params, name)
        if count is not None and not 0 <= count <= MAX_TOP_LOGPROBS:
            raise InvalidArgument(name, f"must be from 0 to {MAX_TOP_LOGPROBS}")


def _check_ids(name: str, token_ids: Iterable[int], vocab_size: int | None) -> None:
    limit = math.inf if vocab_size is None else vocab_size
    if not all(0 <= token_id < limit for token_id in token_ids):
        last = "the vocabulary's last" if vocab_size is None else vocab_size - 1
        raise InvalidArgument(name, f"must be token ids from 0 to {last}")


_Check = Callable[["SamplingParams", int | None], None]
_CHECKS: tuple[_Check, ...] = (
    _check_penalties,
    _check_bias,
    _check_bad_words,
    _check_allowed,
    _check_min_tokens,
    _check_logprobs,
)
