"""What the model and the KV pool can serve; requests beyond it are refused before they queue."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from dspark.errors import ContextLength, InvalidArgument
from dspark.generation import RequestSpec
from dspark.scheduler.policy import POLICIES
from dspark.step import VerifierInfo


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in tokens; ``sources`` is None while no candidates service has named its own."""

    vocab_size: int
    max_model_len: int
    max_pool_tokens: int
    sources: tuple[str, ...] | None = None
    can_structure: bool = True

    @classmethod
    def of(cls, info: VerifierInfo, sources: tuple[str, ...] | None) -> Limits:
        pool_tokens, can_structure = info.pool_tokens, info.can_structure
        return cls(info.vocab_size, info.max_model_len, pool_tokens, sources, can_structure)

    @property
    def max_len(self) -> int:
        """Largest number of prompt and generated tokens of one request."""
        return min(self.max_model_len, self.max_pool_tokens)

    def check(self, spec: RequestSpec) -> RequestSpec:
        """The request with max_tokens clamped to fit; raises InvalidArgument, ContextLength."""
        if not spec.request_id:
            raise InvalidArgument("request_id", "must not be empty")
        self._check_prompt(spec)
        self._check_tokens("committed_token_ids", spec.committed_token_ids)
        spec.sampling.validate(self.vocab_size)
        if spec.sampling.structured is not None and not self.can_structure:
            raise InvalidArgument(
                "structured_outputs", "the verifier has no tokenizer to honour them with"
            )
        self._check_speculation(spec)
        room = self.max_len - len(spec.prompt_token_ids)
        clamped = min(spec.sampling.max_tokens, room)
        sampling = dataclasses.replace(
            spec.sampling,
            max_tokens=clamped,
            min_tokens=min(spec.sampling.min_tokens, clamped),
        )
        return dataclasses.replace(spec, sampling=sampling)

    def _check_prompt(self, spec: RequestSpec) -> None:
        given = len(spec.prompt_token_ids)
        if not given:
            raise InvalidArgument("prompt_token_ids", "must have at least one token")
        if given + 1 > self.max_len:
            whose = "model" if self.max_model_len <= self.max_pool_tokens else "KV pool"
            raise ContextLength(
                "prompt",
                f"has {given} tokens; the {whose} holds {self.max_len}, prompt and at least one "
                "generated token",
                limit=self.max_len,
                given=given,
            )
        self._check_tokens("prompt_token_ids", spec.prompt_token_ids)

    def _check_tokens(self, field: str, token_ids: tuple[int, ...]) -> None:
        if token_ids and max(token_ids) >= self.vocab_size:
            raise InvalidArgument(
                field, f"token id {max(token_ids)} is outside 0 to {self.vocab_size - 1}"
            )

    def _check_speculation(self, spec: RequestSpec) -> None:
        for name in spec.speculation.sources if self.sources is not None else ():
            if name not in (self.sources or ()):
                known = ", ".join(self.sources or ()) or "none"
                raise InvalidArgument(
                    "speculation.sources", f"{name!r} is no source here (there are: {known})"
                )
        policy = spec.speculation.policy
        if policy and policy not in POLICIES:
            known = ", ".join(POLICIES)
            raise InvalidArgument(
                "speculation.policy", f"{policy!r} is no policy here (there are: {known})"
            )
