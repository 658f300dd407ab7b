"""A target model that is a hash of the last tokens, their position and the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.sampling import FinishReason, SamplingParams

CONTEXT = 8
_MASK = 2**61 - 1


@dataclass(frozen=True)
class Generation:
    """What plain decoding gives."""

    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None


@dataclass(frozen=True)
class HashModel:
    """Sampling parameters other than temperature, seed and the stops are ignored."""

    vocab_size: int = 64
    eos_token_id: int = 63
    max_model_len: int = 512

    def next_token(self, token_ids: Sequence[int], sampling: SamplingParams) -> int:
        seed = sampling.seed if sampling.temperature > 0 else 0
        state = seed * 2_654_435_761 + len(token_ids) + 1
        for token_id in token_ids[-CONTEXT:]:
            state = (
                state * 6_364_136_223_846_793_005 + token_id + 1_442_695_040_888_963_407
            ) & _MASK
        return (state >> 17) % self.vocab_size

    def end_of(
        self, token_id: int, num_generated: int, num_tokens: int, sampling: SamplingParams
    ) -> tuple[FinishReason | None, int | None]:
        """Why a request ends with this token, and the stop token, if it does."""
        if token_id in sampling.stop_token_ids:
            return FinishReason.STOP, token_id
        if token_id == self.eos_token_id and not sampling.ignore_eos:
            return FinishReason.STOP, token_id
        if num_generated >= sampling.max_tokens or num_tokens >= self.max_model_len:
            return FinishReason.LENGTH, None
        return None, None

    def generate(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams,
        committed: Sequence[int] = (),
    ) -> Generation:
        """Decode plainly to the end; the tokens after ``committed``."""
        tokens, new = [*prompt, *committed], []
        while True:
            new.append(self.next_token(tokens, sampling))
            tokens.append(new[-1])
            num_generated = len(tokens) - len(prompt)
            reason, stop = self.end_of(new[-1], num_generated, len(tokens), sampling)
            if reason is not None:
                return Generation(tuple(new), reason, stop)
