"""Log-probabilities of rows, raw and of what is drawn from."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.sampling import SamplingParams
from dspark.verifier.config import LOGPROBS_MODES as SETTING
from dspark.verifier.sampling.history import History
from dspark.verifier.sampling.logprobs import (
    LOGPROBS_MODES,
    processed_scores,
    raw_scores,
    run_logprobs,
    token_logprobs,
)
from dspark.verifier.sampling.processors import make_processors
from dspark.verifier.sampling.sampler import Sampler
from dspark.verifier.token_buffer import TokenBuffer
from harness.plain_options import changed_logits, drawn_log_probabilities, log_softmax

VOCAB = 70


def rows_of(seed: int, count: int = 4) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((count, VOCAB)) * 5).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.integers(0, VOCAB - 1), st.integers(0, 20))
def test_a_token_and_the_likeliest(seed: int, token: int, num_top: int) -> None:
    logits = rows_of(seed)[0]
    wanted = log_softmax(logits)
    told = token_logprobs(logits, token, num_top)
    assert told.logprob == pytest.approx(wanted[token], abs=1e-5)
    assert told.rank == 1 + sum(value > logits[token] for value in logits)
    best = sorted(range(VOCAB), key=lambda i: (-logits[i], i))[:num_top]
    assert list(told.top_token_ids) == best
    assert told.top_logprobs == pytest.approx([wanted[i] for i in best], abs=1e-5)


def test_more_likely_tokens_than_there_are() -> None:
    told = token_logprobs(np.zeros(3, np.float32), 1, 20)
    assert told.top_token_ids == (0, 1, 2)
    assert told.top_logprobs == pytest.approx([-math.log(3)] * 3)
    assert told.rank == 1


@pytest.mark.parametrize("temperature", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(
    "filters", [{}, {"top_k": 9}, {"top_p": 0.7}, {"min_p": 0.1, "top_p": 0.9, "top_k": 30}]
)
def test_what_is_drawn_from(temperature: float, filters: dict[str, float]) -> None:
    params = SamplingParams(
        temperature=temperature,
        repetition_penalty=1.4,
        presence_penalty=0.7,
        logit_bias=((3, 2.0),),
        bad_words=((5,), (8, 9)),
        **filters,  # type: ignore[arg-type]
    )
    prompt, output, path = [1, 2], [8, 3], (8, 4)
    history = History(params, TokenBuffer([*prompt, *output]), len(prompt), frozenset())
    sampler = Sampler(params, make_processors(history))
    rows = rows_of(5, len(path))
    told = run_logprobs(rows, path, sampler, processed_scores, 6)
    for place, (row, token) in enumerate(zip(rows, path, strict=True)):
        past = output + list(path[:place])
        changed = changed_logits(row, prompt, past, params, frozenset())
        wanted = drawn_log_probabilities(changed, params)
        assert told[place].logprob == pytest.approx(wanted[token], abs=1e-5)
        for token_id, logprob in zip(
            told[place].top_token_ids, told[place].top_logprobs, strict=True
        ):
            assert logprob == pytest.approx(wanted[token_id], abs=1e-5)
    raw = run_logprobs(rows, path, sampler, raw_scores, 0)
    assert [each.logprob for each in raw] == pytest.approx(
        [log_softmax(row)[token] for row, token in zip(rows, path, strict=True)], abs=1e-5
    )


def test_the_setting_names_every_mode() -> None:
    assert tuple(LOGPROBS_MODES) == SETTING
