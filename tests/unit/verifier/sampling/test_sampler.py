"""One draw: greedy, ties, noise, filters, processors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dspark.keyed_noise import KeyedNoise, bits_at_gumbel
from dspark.sampling import SamplingParams
from dspark.verifier.sampling.filters import surviving_tokens
from dspark.verifier.sampling.sampler import Sampler, perturbed_argmax
from dspark.verifier.sampling.top_ids import top_ids
from harness.plain_sampling import probabilities

ROW = np.array([-8, -3, -2, -1, 0, 9, 1, 2], dtype=np.float32)
KNOWN_BITS = [3746585686858627171, 6235967106033911276]
KNOWN_GUMBEL = [-0.4662735186548662, -0.08116903215863935]
# Few distinct values, so that ties are frequent.
TIED_ROWS = st.lists(st.integers(-3, 3), min_size=2, max_size=40).map(
    lambda values: np.array(values, dtype=np.float32)
)


def draw(logits: NDArray[np.float32], position: int = 3, **params: float) -> int:
    return Sampler(SamplingParams(**params)).draw(logits, position, [])  # type: ignore[arg-type]


def test_greedy_is_the_largest_logit_whatever_seed_position_and_filters() -> None:
    for seed in range(20):
        for filters in ({}, {"top_k": 2}, {"top_p": 0.1}, {"min_p": 1.0}):
            assert draw(ROW, seed, temperature=0.0, seed=seed, **filters) == 5


def test_greedy_ties_go_to_the_lowest_id() -> None:
    assert draw(np.array([1, 7, 3, 7, 7], dtype=np.float32), temperature=0.0) == 1


def test_greedy_draws_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("greedy decoding must not touch the noise")

    monkeypatch.setattr(KeyedNoise, "__init__", refuse)
    assert draw(ROW, temperature=0.0) == 5


def test_the_lowest_temperatures_and_largest_logits_draw_the_likeliest() -> None:
    for temperature in (1e-30, 1e-6, 0.01):
        assert draw(ROW * 1e4, temperature=temperature) == 5
        assert draw(ROW * 1e4, temperature=temperature, top_p=0.5) == 5
        assert draw(ROW * 1e4, temperature=temperature, top_k=3, min_p=0.5) == 5


def test_noise_depends_on_seed_position_and_token() -> None:
    ids = np.arange(1000)
    draws = {
        tuple(KeyedNoise(seed, position).bits(ids)[:4].tolist())
        for seed in (0, 1, 2**63, 2**64 - 1)
        for position in (0, 1, 2, 100_000)
    }
    assert len(draws) == 16
    bits = KeyedNoise(7, 7).bits(ids)
    assert len(set(bits.tolist())) == 1000
    assert (bits == KeyedNoise(7, 7).bits_of_all(1000)).all()
    assert (bits[5:9] == KeyedNoise(7, 7).bits(ids[5:9])).all()


def test_noise_has_known_values() -> None:
    """A change of these changes what every seed gives."""
    assert KeyedNoise(0, 0).bits(np.arange(2)).tolist() == KNOWN_BITS
    assert KeyedNoise(0, 0).gumbel(np.arange(2)).tolist() == pytest.approx(KNOWN_GUMBEL, rel=1e-12)


def test_gumbel_is_finite_at_the_extremes(monkeypatch: pytest.MonkeyPatch) -> None:
    extremes = np.array([0, 2**64 - 1], dtype=np.uint64)
    monkeypatch.setattr(KeyedNoise, "bits", lambda self, ids: extremes)
    low, high = KeyedNoise(0, 0).gumbel(np.arange(2))
    assert -4 < low < -3 and 36 < high < 37


@given(st.floats(-5, 45))
def test_bits_at_gumbel_lets_every_large_enough_draw_through(value: float) -> None:
    threshold = bits_at_gumbel(value)
    noise = KeyedNoise(1, 1)
    ids = np.arange(2000)
    reaching = noise.bits(ids)[noise.gumbel(ids) >= value]
    assert threshold is not None or value > 37
    assert threshold is None or (reaching >= np.uint64(threshold)).all()
    if threshold is None:
        assert len(reaching) == 0


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-30, 0.05, 0.7, 1.0, 3.0, 100.0]),
    st.sampled_from([0.0, 1.0, 8.0, 1e5]),
    st.integers(1, 3000),
)
def test_perturbed_argmax_equals_scoring_the_whole_row(
    seed: int, temperature: float, spread: float, size: int
) -> None:
    generator = np.random.default_rng(seed)
    logits = (generator.standard_normal(size) * spread).round(1).astype(np.float32)
    noise = KeyedNoise(seed, 9)
    scores = logits.astype(np.float64) / temperature + noise.gumbel(np.arange(size))
    assert perturbed_argmax(logits, None, temperature, noise) == int(scores.argmax())
    ids = np.flatnonzero(generator.random(size) < 0.5)
    if len(ids):
        wanted = int(ids[scores[ids].argmax()])
        assert perturbed_argmax(logits, ids, temperature, noise) == wanted


def test_many_unlikely_tokens_win_as_often_as_they_should() -> None:
    """One likely token, far above thousands of others that together win every third draw."""
    logits = np.random.default_rng(0).random(3000).astype(np.float32) / 2
    logits[1234] = 9.0
    ids = np.arange(len(logits))
    num_upsets = 0
    for seed in range(200):
        noise = KeyedNoise(seed, 5)
        wanted = int((logits.astype(np.float64) + noise.gumbel(ids)).argmax())
        assert perturbed_argmax(logits, None, 1.0, noise) == wanted
        num_upsets += wanted != 1234
    assert 40 < num_upsets < 100


@given(TIED_ROWS, st.integers(1, 12))
def test_top_ids_are_sorted_and_ties_go_to_the_lowest_id(
    row: NDArray[np.float32], count: int
) -> None:
    count = min(count, len(row))
    wanted = sorted(range(len(row)), key=lambda i: (-row[i], i))[:count]
    rows = np.stack([row, row[::-1].copy()])
    assert top_ids(rows, count)[0].tolist() == wanted
    assert top_ids(rows, count).shape == (2, count)


def test_top_ids_of_a_large_row() -> None:
    generator = np.random.default_rng(3)
    rows = generator.integers(0, 300, (3, 4_150)).astype(np.float32)
    for count in (1, 8, 64, 65, 900):
        found = top_ids(rows, count)
        for row, ids in zip(rows, found, strict=True):
            assert ids.tolist() == np.argsort(-row, kind="stable")[:count].tolist()


@given(
    TIED_ROWS,
    st.integers(0, 10),
    st.sampled_from([0.15, 0.5, 0.85, 1.0]),
    st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_filters_keep_what_the_plain_rule_keeps(
    row: NDArray[np.float32], top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    exact = probabilities(row.tolist(), params)
    kept = surviving_tokens(row, params)
    wanted = [i for i, probability in enumerate(exact) if probability > 0]
    assert (list(range(len(row))) if kept is None else kept.tolist()) == wanted


@pytest.mark.parametrize("top_p", [0.001, 0.5, 0.9, 0.999, 0.9999999])
@pytest.mark.parametrize("spread", [0.0, 0.5, 4.0, 20.0])
def test_top_p_of_a_large_row(top_p: float, spread: float) -> None:
    logits = (np.random.default_rng(5).standard_normal(20_000) * spread).astype(np.float32)
    kept = surviving_tokens(logits, SamplingParams(top_p=top_p))
    assert kept is not None
    order = np.argsort(-logits, kind="stable")
    assert kept.tolist() == sorted(order[: len(kept)].tolist())
    weights = np.exp(logits.astype(np.float64) - float(logits.max()))
    reached = np.cumsum(weights[order]) / weights.sum()
    # The edge may fall one way or the other by the rounding of 32-bit weights.
    assert reached[len(kept) - 1] >= top_p - 1e-6
    assert len(kept) == 1 or reached[len(kept) - 2] <= top_p + 1e-6


def test_top_ids_of_rows_without_numbers() -> None:
    rows = np.arange(3 * 200, dtype=np.float32).reshape(3, 200)
    rows[1] = np.nan
    rows[2, 7] = np.nan
    assert top_ids(rows, 3).tolist() == [[199, 198, 197], [0, 1, 2], [199, 198, 197]]


def test_processors_see_their_own_path_and_never_the_caller_s_row() -> None:
    seen: list[list[int]] = []

    def ban_previous(logits: NDArray[np.float32], path: Sequence[int]) -> None:
        seen.append(list(path))
        logits[list(path)] = -np.inf

    sampler = Sampler(SamplingParams(temperature=0.0), [ban_previous])
    row = ROW.copy()
    assert [sampler.draw(row, 1, path) for path in ([], [5], [5, 7])] == [5, 7, 6]
    assert seen == [[], [5], [5, 7]]
    assert (row == ROW).all()


@pytest.mark.parametrize("vocab_size", [1, 16_383, 16_384, 16_385, 49_152])
def test_the_bits_of_all_tokens_are_those_of_each(vocab_size: int) -> None:
    noise = KeyedNoise(2**64 - 1, 12)
    assert np.array_equal(noise.bits_of_all(vocab_size), noise.bits(np.arange(vocab_size)))
