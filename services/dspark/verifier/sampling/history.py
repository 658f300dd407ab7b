"""What a logits processor knows of its sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.sampling import SamplingParams
from dspark.verifier.token_buffer import TokenBuffer


@dataclass(frozen=True, slots=True)
class History:
    """A sequence's text up to a walk, which goes on growing; a walk's own tokens come as a path.

    ``stop_token_ids`` are all that end the sequence. The first ``num_prompt_tokens`` of ``tokens``
    are the prompt, however often the sequence was admitted anew.
    """

    sampling: SamplingParams
    tokens: TokenBuffer
    num_prompt_tokens: int
    stop_token_ids: frozenset[int]

    def num_generated(self, path: Sequence[int]) -> int:
        return len(self.tokens) - self.num_prompt_tokens + len(path)

    def last_generated(self, count: int, path: Sequence[int]) -> tuple[int, ...]:
        """Up to ``count`` of the last generated tokens, in order."""
        if count <= 0:
            return ()
        if len(path) >= count:
            return tuple(path[-count:])
        first = max(self.num_prompt_tokens, len(self.tokens) + len(path) - count)
        return (*self.tokens.ids[first:].tolist(), *path)
