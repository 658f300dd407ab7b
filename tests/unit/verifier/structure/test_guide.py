"""A guide follows committed tokens and a walk's path, and nothing else moves it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pytest
from numpy.typing import NDArray

from dspark.grammars.refusal import GrammarRefused
from dspark.token_tree import chain
from dspark.verifier.sampling.sampler import BadLogits
from dspark.verifier.structure.guide import Guide
from dspark.verifier.structure.matcher import Matcher, MatcherFailed
from dspark.verifier.token_buffer import TokenBuffer
from harness.finite_language import FiniteMatcher, done

VOCAB, END = 6, 5
WORDS = [(1, 2, 3), (1, 4), (1, 4, 4)]
PROMPT = [0, 0, 3]


def guide_of(
    tokens: TokenBuffer, start: Future[Matcher] | None = None, *, ignores_ends: bool = False
) -> Guide:
    return Guide(
        start or done(FiniteMatcher(WORDS, END)),
        lambda: FiniteMatcher(WORDS, END),
        tokens,
        len(PROMPT),
        end_ids=frozenset({END}),
        ignores_ends=ignores_ends,
    )


def allowed(guide: Guide, path: Sequence[int]) -> list[int]:
    logits = np.zeros(VOCAB, dtype=np.float32)
    guide(logits, path)
    return np.flatnonzero(np.isfinite(logits)).tolist()


def test_each_row_of_a_walk_is_masked_by_its_own_past() -> None:
    guide = guide_of(TokenBuffer(PROMPT))
    assert allowed(guide, []) == [1]
    assert allowed(guide, [1]) == [2, 4]
    assert allowed(guide, [1, 4]) == [4, END]


def test_committed_tokens_and_the_next_path_go_on_where_the_walk_ended() -> None:
    tokens = TokenBuffer(PROMPT)
    guide = guide_of(tokens)
    assert allowed(guide, [1]) == [2, 4]
    tokens.extend([1, 4])
    assert allowed(guide, []) == [4, END]
    assert not guide.is_complete([])
    assert guide.is_complete([4])


def test_what_a_walk_saw_can_be_asked_for_again() -> None:
    guide = guide_of(TokenBuffer(PROMPT))
    assert allowed(guide, [1, 4, 4]) == [END]
    assert allowed(guide, [1]) == [2, 4]
    assert allowed(guide, [1, 4]) == [4, END]


def test_an_admission_with_generated_tokens_starts_behind_them() -> None:
    assert allowed(guide_of(TokenBuffer([*PROMPT, 1, 4])), []) == [4, END]
    assert guide_of(TokenBuffer([*PROMPT, 1, 2, 3])).is_complete([])


def test_a_fit_between_walks_moves_nothing() -> None:
    tokens = TokenBuffer([*PROMPT, 1])
    guide = guide_of(tokens)
    fitted = guide.fit(chain([2, 4], "s"), max_forced=3, max_depth=9)
    assert fitted is not None
    assert fitted.tree.token_ids == (2, 3)
    assert allowed(guide, []) == [2, 4]


def test_ends_that_are_ignored_come_only_where_nothing_else_may() -> None:
    guide = guide_of(TokenBuffer([*PROMPT, 1, 4]), ignores_ends=True)
    assert allowed(guide, []) == [4]
    assert allowed(guide, [4]) == [END]


def test_a_token_that_the_grammar_forbids_ends_the_drawing() -> None:
    guide = guide_of(TokenBuffer([*PROMPT, 2]))
    assert not guide.is_complete([])
    assert guide.fit(chain([1], "s"), max_forced=1, max_depth=9) is None
    with pytest.raises(BadLogits, match="2 may not follow"):
        allowed(guide, [])


class Worn(FiniteMatcher):
    """Fails after its first token, as one whose memory others have filled."""

    def mask(self, vocab_size: int) -> NDArray[np.bool_]:
        if self.text:
            raise MatcherFailed("too many states")
        return super().mask(vocab_size)

    def fork(self) -> Worn:
        return Worn(self.words, self.end)


def test_a_matcher_that_others_have_worn_out_is_renewed_once() -> None:
    guide = guide_of(TokenBuffer(PROMPT), done(Worn(WORDS, END)))
    assert allowed(guide, []) == [1]
    assert allowed(guide, [1]) == [2, 4]
    assert allowed(guide, [1, 4]) == [4, END]


def test_one_that_fails_again_draws_nothing() -> None:
    guide = Guide(
        done(Worn(WORDS, END)),
        lambda: Worn(WORDS, END),
        TokenBuffer([*PROMPT, 1]),
        len(PROMPT),
        end_ids=frozenset({END}),
        ignores_ends=False,
    )
    with pytest.raises(BadLogits, match="too many states"):
        allowed(guide, [])


def test_a_grammar_that_was_refused_draws_nothing() -> None:
    start: Future[Matcher] = Future()
    guide = guide_of(TokenBuffer(PROMPT), start)
    assert not guide.is_ready
    start.set_exception(GrammarRefused("is no grammar"))
    assert guide.is_ready
    with pytest.raises(BadLogits, match="is no grammar"):
        allowed(guide, [])
