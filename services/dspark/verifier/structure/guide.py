"""Holds one sequence to its grammar, along whatever path a walk takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dspark.grammars.refusal import GrammarRefused
from dspark.token_tree import TokenTree
from dspark.verifier.sampling.sampler import BadLogits
from dspark.verifier.structure.matcher import Matcher, MatcherFailed
from dspark.verifier.structure.tree_fit import FittedTree, fit_tree
from dspark.verifier.token_buffer import TokenBuffer

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Guide:
    """The mask of each row, the completeness of each text and the fit of each tree.

    A matcher follows the generated tokens, which are those of ``tokens`` behind the prompt and then
    a walk's path. A path is always committed, so the matcher goes back only where somebody asks
    for what a walk saw on its way, and a sequence that is admitted anew finds its place from the
    tokens that it brings.
    """

    def __init__(
        self,
        start: Future[Matcher],
        renew: Callable[[], Matcher],
        tokens: TokenBuffer,
        num_prompt_tokens: int,
        *,
        end_ids: Set[int],
        ignores_ends: bool,
    ) -> None:
        """``start`` is a matcher at the beginning, or why there is none: then no token is drawn.
        Its forks share a memory of limited size with those of other sequences, so where one fails
        ``renew`` gives one of this sequence's own, once.

        A text may end with a token of ``end_ids`` where the grammar allows; one that
        ``ignores_ends`` ends only where nothing else may follow.
        """
        self._start = start
        self._renew: Callable[[], Matcher] | None = renew
        self._tokens = tokens
        self._num_prompt_tokens = num_prompt_tokens
        self._end_ids = end_ids
        self._ends = np.array(sorted(end_ids) if ignores_ends else [], dtype=np.int64)
        self._matcher: Matcher | None = None
        self._num_consumed = 0
        self._problem = ""

    @property
    def is_ready(self) -> bool:
        """Whether the grammar is compiled, or has turned out to be none."""
        return self._start.done()

    def __call__(self, logits: NDArray[np.float32], path: Sequence[int]) -> None:
        """Take from ``logits`` [vocab_size] what the grammar forbids; raises BadLogits."""
        try:
            allowed = self._ask(path, lambda matcher: matcher.mask(len(logits)))
        except MatcherFailed as failure:
            raise self._failed(failure) from None
        if self._ends.size and allowed.sum() > allowed[self._ends].sum():
            allowed[self._ends] = False
        logits[~allowed] = -np.inf

    def is_complete(self, path: Sequence[int]) -> bool:
        """Whether the text with ``path`` is whole, and nothing may follow."""
        try:
            return self._ask(path, lambda matcher: matcher.is_complete)
        except MatcherFailed:
            # The next draw tells of it.
            return False

    def fit(self, tree: TokenTree, *, max_forced: int, max_depth: int) -> FittedTree | None:
        """What of a tree the grammar allows, with what it forces; None if that cannot be told."""
        try:
            return self._ask(
                (),
                lambda matcher: fit_tree(
                    tree, matcher, max_forced=max_forced, max_depth=max_depth, end_ids=self._end_ids
                ),
            )
        except MatcherFailed as failure:
            self._failed(failure)
            return None

    def _ask(self, path: Sequence[int], question: Callable[[Matcher], Answer]) -> Answer:
        try:
            return question(self._at(path))
        except MatcherFailed:
            if self._matcher is None or self._renew is None:
                raise
            renew, self._renew = self._renew, None
            try:
                self._matcher, self._num_consumed = renew(), 0
            except GrammarRefused as error:
                raise MatcherFailed(str(error)) from None
            return question(self._at(path))

    def _at(self, path: Sequence[int]) -> Matcher:
        """The matcher behind the committed tokens and ``path``."""
        if self._problem:
            raise MatcherFailed(self._problem)
        if self._matcher is None:
            self._matcher = self._begun()
        committed = self._tokens.ids[self._num_prompt_tokens :]
        num_tokens = len(committed) + len(path)
        if self._num_consumed < num_tokens:
            news = [*committed[self._num_consumed :].tolist(), *path]
            self._matcher.consume(news[self._num_consumed - num_tokens :])
        elif self._num_consumed > num_tokens:
            self._matcher.rollback(self._num_consumed - num_tokens)
        self._num_consumed = num_tokens
        return self._matcher

    def _begun(self) -> Matcher:
        try:
            return self._start.result(timeout=0).fork()
        except (GrammarRefused, TimeoutError) as error:
            raise MatcherFailed(str(error)) from None

    def _failed(self, failure: MatcherFailed) -> BadLogits:
        if not self._problem:
            self._problem = str(failure)
            log.warning("a structured output cannot go on: %s", failure)
        return BadLogits(self._problem)
