"""What changes logits before a draw equals the same rules written out token by token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.sampling import SamplingParams
from dspark.verifier.sampling.history import History
from dspark.verifier.sampling.processors import make_processors
from dspark.verifier.sampling.sampler import Sampler
from dspark.verifier.token_buffer import TokenBuffer
from harness.plain_options import changed_logits

VOCAB = 12
TOKENS = st.integers(0, VOCAB - 1)
PARAMS = st.builds(
    SamplingParams,
    max_tokens=st.just(40),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7]),
    presence_penalty=st.sampled_from([0.0, 1.5, -2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.4, -0.3]),
    logit_bias=st.dictionaries(TOKENS, st.sampled_from([-100.0, -1.5, 2.25, 100.0])).map(
        lambda bias: tuple(bias.items())
    ),
    bad_words=st.lists(st.lists(TOKENS, min_size=1, max_size=4).map(tuple), max_size=4).map(tuple),
    allowed_token_ids=st.one_of(st.just(frozenset()), st.frozensets(TOKENS, min_size=3)),
    min_tokens=st.integers(0, 12),
    stop_token_ids=st.frozensets(TOKENS, max_size=2),
)


def sampler_of(params: SamplingParams, prompt: list[int], output: list[int]) -> Sampler:
    tokens = TokenBuffer([*prompt, *output])
    history = History(params, tokens, len(prompt), params.stop_token_ids)
    return Sampler(params, make_processors(history))


def row(seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(VOCAB) * 4).astype(np.float32)


@given(
    PARAMS,
    st.lists(TOKENS, min_size=1, max_size=8),
    st.lists(TOKENS, max_size=8),
    st.lists(TOKENS, max_size=5),
    st.integers(0, 2**32 - 1),
)
def test_each_row_is_changed_by_its_own_past(
    params: SamplingParams, prompt: list[int], output: list[int], path: list[int], seed: int
) -> None:
    sampler = sampler_of(params, prompt, output)
    for count in range(len(path) + 1):
        logits = row(seed + count)
        before = logits.copy()
        changed = sampler.processed(logits, path[:count])
        past = output + path[:count]
        wanted = changed_logits(logits, prompt, past, params, params.stop_token_ids)
        np.testing.assert_allclose(changed, wanted, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(logits, before)


@given(PARAMS, st.lists(TOKENS, min_size=2, max_size=16), st.data())
def test_growing_and_starting_anew_come_to_the_same_bits(
    params: SamplingParams, text: list[int], data: st.DataObject
) -> None:
    """Steps of any size, or another verifier that gets prompt and output at once."""
    tokens = TokenBuffer(text[:1])
    history = History(params, tokens, 1, params.stop_token_ids)
    grown = Sampler(params, make_processors(history))
    rest = text[1:]
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        grown.processed(row(len(rest)), rest[: size - 1])
        tokens.extend(rest[:size])
        rest = rest[size:]
    anew = sampler_of(params, text[:1], text[1:])
    np.testing.assert_array_equal(grown.processed(row(7), []), anew.processed(row(7), []))


@given(PARAMS, st.lists(TOKENS, max_size=6), st.lists(TOKENS, max_size=4))
def test_asking_again_for_an_earlier_path_changes_nothing(
    params: SamplingParams, output: list[int], path: list[int]
) -> None:
    sampler = sampler_of(params, [3], output)
    first = sampler.processed(row(1), [])
    sampler.processed(row(2), path)
    np.testing.assert_array_equal(sampler.processed(row(1), []), first)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.5, top_k=3, stop_token_ids=frozenset({1})),
        SamplingParams(logit_bias=((1, 0.0),)),
        SamplingParams(logprobs=5, prompt_logprobs=0),
        SamplingParams(min_tokens=5),
    ],
)
def test_a_request_that_asks_for_nothing_has_no_processor(params: SamplingParams) -> None:
    history = History(params, TokenBuffer([1]), 1, params.stop_token_ids)
    assert make_processors(history) == ()


def test_logits_are_not_copied_where_nothing_changes_them() -> None:
    logits = row(1)
    assert Sampler(SamplingParams()).processed(logits, []) is logits


def test_a_bias_comes_after_penalties_and_before_masks() -> None:
    params = SamplingParams(
        repetition_penalty=2.0,
        logit_bias=((0, 100.0), (1, 100.0)),
        allowed_token_ids=frozenset({1, 2}),
    )
    changed = sampler_of(params, [1], []).processed(np.full(VOCAB, -1, np.float32), [])
    # Were the bias before the penalty, the penalty would halve the sum.
    assert changed[:3].tolist() == [-np.inf, 98.0, -1.0]


def test_where_masks_leave_no_token_there_is_nothing_to_draw() -> None:
    from dspark.verifier.sampling.sampler import BadLogits, NoTokenLeft

    params = SamplingParams(allowed_token_ids=frozenset({4}), bad_words=((4, 4),))
    sampler = sampler_of(params, [1], [4])
    with pytest.raises(NoTokenLeft):
        sampler.draw(row(1), 2, [])
    with pytest.raises(BadLogits) as caught:
        sampler.draw(row(1) * np.float32("nan"), 2, [])
    assert not isinstance(caught.value, NoTokenLeft), "that is the model's fault"
