"""Checks of a step's data and the making of sequences from admissions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dspark.errors import ContextLength, InvalidArgument
from dspark.step import SequenceAdmission, StepPlan
from dspark.verifier.kv.block_table import BlockTable
from dspark.verifier.sampling.history import History
from dspark.verifier.sampling.processors import make_processors
from dspark.verifier.sampling.sampler import Sampler
from dspark.verifier.sequence import Sequence
from dspark.verifier.structure.compiler import NoStructures, Structures
from dspark.verifier.structure.guide import Guide
from dspark.verifier.token_buffer import TokenBuffer


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sequence must fit into; ``max_model_len`` counts prompt and generated tokens."""

    vocab_size: int
    max_model_len: int
    max_pool_tokens: int
    eos_token_ids: frozenset[int]
    feature_layers: tuple[int, ...] = ()
    can_structure: bool = False


def check_plan(plan: StepPlan, limits: Limits) -> None:
    """Raise InvalidArgument for the first entry that can never be served."""
    _check_features(plan.feature_layers, limits)
    for admission in plan.admissions:
        _check_tokens(admission, limits)
        admission.sampling.validate(limits.vocab_size)
        if admission.sampling.structured is not None and not limits.can_structure:
            raise InvalidArgument("sampling.structured", "the model has no tokenizer here")
        _check_budget(admission)
    for work in plan.work:
        if work.max_pending_rows < 1:
            raise InvalidArgument("work.max_pending_rows", "must be at least 1")
    for request_id, count in Counter(work.request_id for work in plan.work).items():
        if count > 1:
            raise InvalidArgument("work.request_id", f"{request_id!r} appears {count} times")


def _check_features(layers: tuple[int, ...], limits: Limits) -> None:
    if list(layers) != sorted(set(layers)):
        raise InvalidArgument("feature_layers", "must be ascending")
    if unknown := sorted(set(layers).difference(limits.feature_layers)):
        raise InvalidArgument("feature_layers", f"layers {unknown} are not exported")


def _check_tokens(admission: SequenceAdmission, limits: Limits) -> None:
    name, given = "admissions.token_ids", len(admission.token_ids)
    if given == 0:
        raise InvalidArgument(name, f"request {admission.request_id!r} has no tokens")
    # One place must be left for a token to generate.
    limit = min(limits.max_model_len, limits.max_pool_tokens) - 1
    if given > limit:
        raise ContextLength(
            name,
            f"request {admission.request_id!r} has {given} tokens, at most {limit} fit",
            limit=limit,
            given=given,
        )
    if not 0 <= min(admission.token_ids) <= max(admission.token_ids) < limits.vocab_size:
        raise InvalidArgument(
            name, f"request {admission.request_id!r} has ids outside 0 to {limits.vocab_size - 1}"
        )


def _check_budget(admission: SequenceAdmission) -> None:
    num_generated = len(admission.token_ids) - admission.num_prompt_tokens
    if admission.num_prompt_tokens < 1 or num_generated < 0:
        raise InvalidArgument(
            "admissions.num_prompt_tokens", "must be from 1 to the number of token_ids"
        )
    if num_generated >= admission.sampling.max_tokens:
        raise InvalidArgument(
            "sampling.max_tokens",
            f"request {admission.request_id!r} already has {num_generated} generated tokens",
        )


def new_sequence(
    admission: SequenceAdmission,
    limits: Limits,
    block_size: int,
    structures: Structures | None = None,
) -> Sequence:
    """The sequence of a checked admission, with no block yet."""
    sampling, tokens = admission.sampling, TokenBuffer(admission.token_ids)
    eos = frozenset() if sampling.ignore_eos else limits.eos_token_ids
    stops = sampling.stop_token_ids | eos
    history = History(sampling, tokens, admission.num_prompt_tokens, stops)
    # One that was admitted before with what it has generated since has told of its prompt.
    is_first = len(tokens) == admission.num_prompt_tokens
    guide = _guide(admission, tokens, limits, structures or NoStructures())
    return Sequence(
        request_id=admission.request_id,
        epoch=admission.epoch,
        sampling=sampling,
        sampler=Sampler(sampling, make_processors(history, guide)),
        stop_token_ids=stops,
        num_prompt_tokens=admission.num_prompt_tokens,
        max_len=min(admission.num_prompt_tokens + sampling.max_tokens, limits.max_model_len),
        tokens=tokens,
        table=BlockTable(block_size),
        uses_prefix_cache=admission.use_prefix_cache,
        wants_prompt_logprobs=sampling.prompt_logprobs is not None and is_first,
        guide=guide,
    )


def _guide(
    admission: SequenceAdmission, tokens: TokenBuffer, limits: Limits, structures: Structures
) -> Guide | None:
    sampling = admission.sampling
    output = sampling.structured
    if output is None:
        return None
    return Guide(
        structures.start(output),
        lambda: structures.renew(output),
        tokens,
        admission.num_prompt_tokens,
        end_ids=limits.eos_token_ids,
        ignores_ends=sampling.ignore_eos,
    )
