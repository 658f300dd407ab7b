"""What plain decoding gave, so that scripted sources can be right or wrong on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class HasPrompt(Protocol):
    @property
    def prompt(self) -> Sequence[int]: ...


class HasTokens(Protocol):
    @property
    def token_ids(self) -> Sequence[int]: ...


class KnownOutputs:
    """Whole texts (prompt and output) of finished plain runs."""

    def __init__(self) -> None:
        self._texts: list[tuple[int, ...]] = []

    def learn(self, prompt: Sequence[int], output: Sequence[int]) -> None:
        self._texts.append((*prompt, *output))

    def learn_all(self, jobs: Sequence[HasPrompt], outputs: Sequence[HasTokens]) -> None:
        for job, output in zip(jobs, outputs, strict=True):
            self.learn(job.prompt, output.token_ids)

    def truth(self, token_ids: Sequence[int]) -> Sequence[int]:
        """What followed these tokens; nothing if no known text begins with them."""
        known = tuple(token_ids)
        for text in self._texts:
            if text[: len(known)] == known and len(text) > len(known):
                return text[len(known) :]
        return ()
