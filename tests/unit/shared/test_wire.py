"""Every plain value survives the wire, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from dspark import generation, proposal, sampling, step
from dspark.errors import InvalidArgument
from dspark.features import Features
from dspark.logprobs import TokenLogprobs
from dspark.request_class import RequestClass
from dspark.v1 import candidates_service_pb2, sampling_pb2, tensor_pb2
from dspark.wire import features as wire_features
from dspark.wire import generation as wire_generation
from dspark.wire import proposal as wire_proposal
from dspark.wire import sampling as wire_sampling
from dspark.wire import step as wire_step
from dspark.wire import token_tree as wire_tree
from harness.token_trees import token_trees

Value = TypeVar("Value")

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
F32 = st.floats(width=32, allow_nan=False)
NAMES = st.text(max_size=12)
TOKENS = st.lists(U32, max_size=8).map(tuple)
NUMBERS = st.lists(U32, max_size=4).map(tuple)
STRINGS = st.lists(NAMES, max_size=3).map(tuple)
FINISH = st.sampled_from([None, *sampling.FinishReason])


def tuples_of(values: st.SearchStrategy[Value]) -> st.SearchStrategy[tuple[Value, ...]]:
    return st.lists(values, max_size=3).map(lambda items: tuple(items))


@st.composite
def some_features(draw: st.DrawFn) -> Features:
    shape = draw(st.tuples(*[st.integers(1, 3)] * 3))
    size = 2 * shape[0] * shape[1] * shape[2]
    return Features(draw(U32), shape, draw(st.binary(min_size=size, max_size=size)))


SAMPLING = st.builds(
    sampling.SamplingParams,
    temperature=F32,
    top_k=U32,
    top_p=F32,
    min_p=F32,
    seed=U64,
    max_tokens=U32,
    stop_token_ids=st.frozensets(U32, max_size=4),
    ignore_eos=st.booleans(),
    repetition_penalty=F32,
    presence_penalty=F32,
    frequency_penalty=F32,
    logit_bias=tuples_of(st.tuples(U32, F32)),
    bad_words=tuples_of(TOKENS),
    allowed_token_ids=st.frozensets(U32, max_size=4),
    min_tokens=U32,
    logprobs=st.none() | U32,
    prompt_logprobs=st.none() | U32,
)


@st.composite
def some_logprobs(draw: st.DrawFn) -> tuple[TokenLogprobs, ...]:
    """Of any number of tokens, with equally many likely ones each."""
    num_top = draw(st.integers(0, 3))
    ids = st.lists(U32, min_size=num_top, max_size=num_top).map(tuple)
    values = st.lists(F32, min_size=num_top, max_size=num_top).map(tuple)
    return draw(tuples_of(st.builds(TokenLogprobs, F32, U32, ids, values)))


SPECULATION = st.builds(
    sampling.SpeculationParams,
    enabled=st.booleans(),
    sources=STRINGS,
    max_draft_tokens=st.none() | U32,
)
STATS = st.builds(
    sampling.SpeculationStats,
    rounds=U64,
    drafted=U64,
    accepted=U64,
    sources=st.dictionaries(NAMES, st.builds(sampling.SourceCounts, U64, U64), max_size=3),
)
USAGE = st.builds(sampling.Usage, U32, U32, U32)
BREAKDOWN = st.builds(sampling.StepBreakdown, F32, F32, F32, F32)
PLAN = st.builds(
    step.StepPlan,
    scheduler_id=NAMES,
    step_id=U64,
    releases=tuples_of(st.builds(step.SequenceRef, NAMES, U32)),
    admissions=tuples_of(
        st.builds(step.SequenceAdmission, NAMES, U32, TOKENS, U32, SAMPLING, NAMES, st.booleans())
    ),
    work=tuples_of(st.builds(step.SequenceWork, NAMES, U32, U32, U32, token_trees(), U32)),
    top_k=U32,
    feature_layers=NUMBERS,
)
OUTCOME = st.builds(
    step.StepOutcome,
    step_id=U64,
    cached_tokens=st.dictionaries(NAMES, U32, max_size=3),
    results=tuples_of(
        st.builds(
            step.WorkResult,
            request_id=NAMES,
            epoch=U32,
            status=st.sampled_from(step.WorkStatus),
            num_computed_tokens=U32,
            committed_token_ids=TOKENS,
            accepted_nodes=NUMBERS,
            finish_reason=FINISH,
            stop_token_id=st.none() | U32,
            row_token_ids=TOKENS,
            top_token_ids=TOKENS,
            features=st.none() | some_features(),
            logprobs=some_logprobs(),
            prompt_logprobs=some_logprobs(),
        )
    ),
    queue_ns=U64,
    forward_ns=U64,
    total_ns=U64,
    num_rows=U32,
    num_free_blocks=U32,
)
INFO = st.builds(
    step.VerifierInfo,
    model_id=NAMES,
    model_digest=NAMES,
    vocab_size=U32,
    max_model_len=U32,
    eos_token_ids=st.frozensets(U32, max_size=3),
    block_size=U32,
    num_blocks=U32,
    max_step_rows=U32,
    exactness=NAMES,
    kernel_class=NAMES,
    dtype=NAMES,
    device=NAMES,
    verify_costs=tuples_of(st.builds(step.VerifyCost, U32, F32, U32)),
    feature_layers=NUMBERS,
    hidden_size=U32,
)
REQUEST = st.builds(
    generation.RequestSpec,
    request_id=NAMES,
    prompt_token_ids=TOKENS,
    sampling=SAMPLING,
    speculation=SPECULATION,
    cache_salt=NAMES,
    priority=st.integers(-(2**31), 2**31 - 1),
    use_prefix_cache=st.booleans(),
    committed_token_ids=TOKENS,
    request_class=st.sampled_from(RequestClass),
    tenant=NAMES,
)
CHUNK = st.builds(
    generation.TokenChunk,
    TOKENS,
    U32,
    NAMES,
    logprobs=some_logprobs(),
    prompt_logprobs=some_logprobs(),
)
EVENT = CHUNK | st.builds(
    generation.TokensComplete,
    finish_reason=st.sampled_from(sampling.FinishReason),
    stop_token_id=st.none() | U32,
    usage=USAGE,
    speculation=STATS,
    steps=BREAKDOWN,
    times=st.none() | st.builds(sampling.RequestTimes, *[st.floats(0, 1e9)] * 3),
)
SEQUENCE_UPDATES = st.builds(
    proposal.SequenceUpdate, NAMES, U32, U32, TOKENS, U32, NAMES, st.floats(0, 100, width=32), U64
)
UPDATE = st.builds(
    proposal.CandidatesUpdate,
    sequences=tuples_of(SEQUENCE_UPDATES),
    successors=tuples_of(st.builds(proposal.Successors, TOKENS, TOKENS, NAMES)),
    releases=tuples_of(st.builds(proposal.SequenceEnd, NAMES, U32, st.booleans())),
    features=tuples_of(st.builds(proposal.SequenceFeatures, NAMES, U32, some_features())),
)
ITEMS = tuples_of(st.builds(proposal.ProposeItem, NAMES, U32, U32, U32, U32, STRINGS))
PROPOSED = st.builds(
    proposal.ProposeOutcome,
    proposals=tuples_of(st.builds(proposal.DraftProposal, NAMES, U32, U32, token_trees())),
    unknown_request_ids=STRINGS,
    source_costs_ns=st.dictionaries(NAMES, U64, max_size=3),
)

CANDIDATES_INFO = st.builds(
    proposal.CandidatesInfo,
    sources=STRINGS,
    top_k=U32,
    rates=tuples_of(st.builds(proposal.SourceRate, NAMES, F32, F32)),
    feature_layers=NUMBERS,
    num_features=U32,
    feature_sources=STRINGS,
)

ROUND_TRIPS: dict[str, tuple[st.SearchStrategy[Any], Callable[..., Message], Any]] = {
    "tree": (token_trees(), wire_tree.tree_to_proto, wire_tree.tree_from_proto),
    "sampling": (SAMPLING, wire_sampling.sampling_to_proto, wire_sampling.sampling_from_proto),
    "speculation": (
        SPECULATION,
        wire_sampling.speculation_to_proto,
        wire_sampling.speculation_from_proto,
    ),
    "stats": (STATS, wire_sampling.stats_to_proto, wire_sampling.stats_from_proto),
    "usage": (USAGE, wire_sampling.usage_to_proto, wire_sampling.usage_from_proto),
    "breakdown": (
        BREAKDOWN,
        wire_sampling.breakdown_to_proto,
        wire_sampling.breakdown_from_proto,
    ),
    "plan": (PLAN, wire_step.plan_to_proto, wire_step.plan_from_proto),
    "outcome": (OUTCOME, wire_step.outcome_to_proto, wire_step.outcome_from_proto),
    "info": (INFO, wire_step.verifier_info_to_proto, wire_step.verifier_info_from_proto),
    "request": (REQUEST, wire_generation.request_to_proto, wire_generation.request_from_proto),
    "event": (EVENT, wire_generation.event_to_proto, wire_generation.event_from_proto),
    "candidates": (CANDIDATES_INFO, wire_proposal.info_to_proto, wire_proposal.info_from_proto),
    "update": (UPDATE, wire_proposal.update_to_proto, wire_proposal.update_from_proto),
    "features": (
        some_features(),
        wire_features.features_to_proto,
        wire_features.features_from_proto,
    ),
    "proposed": (PROPOSED, wire_proposal.outcome_to_proto, wire_proposal.outcome_from_proto),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_value_survives_serialisation(name: str) -> None:
    values, to_proto, from_proto = ROUND_TRIPS[name]

    @given(values)
    def check(value: Any) -> None:
        message = to_proto(value)
        received = type(message).FromString(message.SerializeToString())
        assert from_proto(received) == value

    check()


@given(ITEMS)
def test_propose_items_survive(items: tuple[proposal.ProposeItem, ...]) -> None:
    assert wire_proposal.items_from_proto(wire_proposal.items_to_proto(items)) == items


@given(FINISH)
def test_finish_reasons_survive(reason: sampling.FinishReason | None) -> None:
    sent = wire_sampling.finish_reason_to_proto(reason)
    assert wire_sampling.finish_reason_from_proto(sent) is reason


@pytest.mark.parametrize(
    "name", ["temperature", "top_k", "top_p", "min_p", "seed", "max_tokens", "ignore_eos"]
)
def test_an_unset_scalar_between_services_is_refused_by_name(name: str) -> None:
    message = wire_sampling.sampling_to_proto(sampling.SamplingParams())
    message.ClearField(name)
    with pytest.raises(InvalidArgument) as caught:
        wire_sampling.sampling_from_proto(message)
    assert caught.value.field == f"sampling.{name}"


def test_unset_speculation_means_on_with_the_servers_limits() -> None:
    received = wire_sampling.speculation_from_proto(sampling_pb2.SpeculationParams())
    assert received == sampling.SpeculationParams()


TENSOR = {"dtype": tensor_pb2.DATA_TYPE_BFLOAT16, "shape": [1, 2, 1], "data": bytes(4)}


@pytest.mark.parametrize(
    "fault",
    [
        {"dtype": tensor_pb2.DATA_TYPE_FLOAT16},
        {"shape": []},
        {"shape": [1, 2]},
        {"shape": [1, 2, 1, 1]},
        {"shape": [2**63, 2**63, 1]},
        {"data": bytes(3)},
        {"shape": [0, 2, 1], "data": b""},
    ],
)
def test_malformed_features_are_left_out_and_the_rest_stays(fault: dict[str, Any]) -> None:
    message = candidates_service_pb2.CandidatesUpdate()
    message.sequences.add(request_id="r", token_ids=[1])
    message.features.add(request_id="r").features.tensor.CopyFrom(
        tensor_pb2.Tensor(**{**TENSOR, **fault})
    )
    message.features.add(request_id="s").features.tensor.CopyFrom(tensor_pb2.Tensor(**TENSOR))
    update = wire_proposal.update_from_proto(message)
    assert [s.request_id for s in update.sequences] == ["r"]
    assert [f.request_id for f in update.features] == ["s"]


def test_a_class_that_is_not_set_is_interactive_and_an_unknown_one_is_refused() -> None:
    assert wire_sampling.request_class_from_proto(0) is RequestClass.INTERACTIVE  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as caught:
        wire_sampling.request_class_from_proto(7)  # type: ignore[arg-type]
    assert caught.value.field == "request_class"


def test_sampling_without_options_is_no_longer_than_before_there_were_any() -> None:
    message = wire_sampling.sampling_to_proto(sampling.SamplingParams())
    assert {field.number for field, _ in message.ListFields()} <= set(range(1, 9))
