"""The walk equals plain decoding over the same rows, and stops where plain decoding stops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dspark.sampling import FinishReason, SamplingParams
from dspark.token_tree import TokenTree, chain
from dspark.verifier.sampling.sampler import Sampler
from dspark.verifier.sampling.walk import StopRules, WalkResult, walk
from harness.plain_sampling import decode_over_tree
from harness.token_trees import token_trees

VOCAB = 6
SAMPLING = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.integers(0, VOCAB + 1),
    top_p=st.sampled_from([0.3, 0.8, 1.0]),
    min_p=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 2**64 - 1),
    stop_token_ids=st.frozensets(st.integers(0, VOCAB - 1), max_size=2),
)


def run(
    tree: TokenTree,
    logits: NDArray[np.float32],
    params: SamplingParams,
    *,
    base_len: int = 10,
    num_remaining: int = 100,
) -> WalkResult:
    rules = StopRules(params.stop_token_ids, num_remaining)
    return walk(tree, logits, Sampler(params), rules, base_len=base_len)


def rows_for(tokens: list[int], vocab: int = 30) -> NDArray[np.float32]:
    """Logits rows of a chain whose greedy tokens are ``tokens``."""
    rows = np.zeros((len(tokens), vocab), dtype=np.float32)
    rows[np.arange(len(tokens)), tokens] = 5.0
    return rows


@given(
    token_trees(max_nodes=14, vocab_size=VOCAB),
    SAMPLING,
    st.integers(1, 5000),
    st.integers(1, 8),
    st.integers(0, 2**32 - 1),
)
def test_walk_equals_plain_decoding(
    tree: TokenTree, params: SamplingParams, base_len: int, num_remaining: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    logits = (generator.standard_normal((len(tree) + 1, VOCAB)) * 3).astype(np.float32)
    wanted = decode_over_tree(tree, logits, params, base_len, num_remaining)
    result = run(tree, logits, params, base_len=base_len, num_remaining=num_remaining)
    assert list(result.committed_token_ids) == wanted[0]
    assert list(result.accepted_nodes) == wanted[1]
    assert result.finish_reason == wanted[2]
    assert len(result.committed_token_ids) == len(result.accepted_nodes) + 1


@pytest.mark.parametrize("offset", range(6))
def test_a_stop_at_each_offset_ends_the_run_there(offset: int) -> None:
    tokens = [10, 11, 12, 13, 14, 15]
    params = SamplingParams(temperature=0.0, stop_token_ids=frozenset({tokens[offset]}))
    result = run(chain(tokens[:5], "s"), rows_for(tokens), params)
    assert list(result.committed_token_ids) == tokens[: offset + 1]
    assert list(result.accepted_nodes) == list(range(1, offset + 1))
    assert (result.finish_reason, result.stop_token_id) == (FinishReason.STOP, tokens[offset])


@pytest.mark.parametrize("num_remaining", range(1, 7))
def test_never_more_than_remaining_tokens(num_remaining: int) -> None:
    tokens = [10, 11, 12, 13, 14, 15, 16]
    params = SamplingParams(temperature=0.0)
    result = run(chain(tokens[:6], "s"), rows_for(tokens), params, num_remaining=num_remaining)
    assert list(result.committed_token_ids) == tokens[:num_remaining]
    assert result.finish_reason is FinishReason.LENGTH
    assert result.stop_token_id is None


@pytest.mark.parametrize(
    ("num_remaining", "reason", "length"),
    [
        (5, FinishReason.STOP, 3),
        (3, FinishReason.STOP, 3),
        (2, FinishReason.LENGTH, 2),
    ],
)
def test_a_stop_within_the_cap_wins_and_one_beyond_it_does_not(
    num_remaining: int, reason: FinishReason, length: int
) -> None:
    tokens = [10, 11, 29, 20, 21, 22]
    params = SamplingParams(temperature=0.0, stop_token_ids=frozenset({29}))
    result = run(chain(tokens[:5], "s"), rows_for(tokens), params, num_remaining=num_remaining)
    assert (result.finish_reason, len(result.committed_token_ids)) == (reason, length)


def test_an_empty_tree_commits_one_token() -> None:
    result = run(TokenTree(), rows_for([4]), SamplingParams(temperature=0.0))
    assert result == WalkResult((4,), ())


def test_of_duplicate_children_the_first_is_taken() -> None:
    tree = TokenTree((7, 7, 8), (0, 0, 1), (1, 1, 1), (1.0, 1.0, 1.0), ("s",))
    result = run(tree, rows_for([7, 8, 9, 6]), SamplingParams(temperature=0.0))
    assert result == WalkResult((7, 8, 6), (1, 3))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_row_that_cannot_be_drawn_from_ends_the_sequence_with_error(
    temperature: float, poison: float
) -> None:
    rows = rows_for([10, 11])
    rows *= 20
    rows[1, 3] = poison
    result = run(chain([10], "s"), rows, SamplingParams(temperature=temperature))
    assert result == WalkResult((10,), (1,), FinishReason.ERROR)
    assert not result.no_token_left
