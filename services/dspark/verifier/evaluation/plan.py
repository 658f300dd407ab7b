"""What an evaluation computes, as token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptWork:
    """A prompt, and the most tokens that continue it."""

    token_ids: Sequence[int]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Texts to score in windows of ``context`` tokens that begin with ``prefix``, and prompts."""

    texts: Sequence[Sequence[int]]
    prefix: Sequence[int]
    context: int
    prompts: Sequence[PromptWork]

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that is computed."""
        lengths = [len(prompt.token_ids) + prompt.max_tokens for prompt in self.prompts]
        return max([self.context if self.texts else 0, *lengths])
