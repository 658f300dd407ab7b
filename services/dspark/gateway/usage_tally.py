"""The usage of a response over all its choices (pure)."""

from __future__ import annotations

from dspark.gateway.choice_streams import ChoiceEvent
from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.text_assembly import TextChunk
from dspark.sampling import Usage


class UsageTally:
    """A prompt counts once, however many of the ``n`` choices it has were begun."""

    def __init__(self, n: int = 1) -> None:
        self._n = n
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._generated: dict[int, int] = {}
        # of choices that have ended; None where reasoning is not told from text
        self.reasoning_tokens: int | None = None

    def add(self, item: ChoiceEvent) -> None:
        is_first = item.index % self._n == 0
        match item.event:
            case Started(prompt_tokens=count):
                self._generated[item.index] = 0
                self._prompt_tokens += count if is_first else 0
            case TextChunk(token_ids=ids):
                self._generated[item.index] += len(ids)
            case Completed(usage=usage, reasoning_tokens=reasoning):
                if reasoning is not None:
                    self.reasoning_tokens = (self.reasoning_tokens or 0) + reasoning
                self._generated[item.index] = usage.completion_tokens
                self._cached_tokens += usage.cached_tokens if is_first else 0

    @property
    def usage(self) -> Usage:
        """So far; cached tokens are known of choices that have ended."""
        return Usage(self._prompt_tokens, sum(self._generated.values()), self._cached_tokens)
