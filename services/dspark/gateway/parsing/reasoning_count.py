"""How many tokens of an answer are reasoning, its tags included."""

from __future__ import annotations

from dspark.gateway.parsing.think_tags import ReasoningSplitter, Stage


class ReasoningCount:
    """Told after each token; ``num_tokens`` is None where reasoning is not looked for."""

    def __init__(self, splitter: ReasoningSplitter | None) -> None:
        self._splitter = splitter
        self._before = Stage.CONTENT if splitter is None else splitter.stage
        # tokens that are reasoning if a tag turns out to have begun with them
        self._num_open = 0
        self.num_tokens = None if splitter is None else 0

    def count(self, num_tokens: int) -> None:
        """``num_tokens`` have been read since the last time."""
        if self._splitter is None or self.num_tokens is None:
            return
        before, self._before = self._before, self._splitter.stage
        self._num_open += num_tokens
        if Stage.REASONING in (before, self._before):
            self.num_tokens += self._num_open
        if self._before is not Stage.OPENING:
            self._num_open = 0
