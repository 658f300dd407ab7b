"""The committed tokens of one live request, as the sources see them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class LiveSequence:
    """One incarnation of a request. Sources read it; only ``SequenceTable`` changes it."""

    request_id: str
    epoch: int
    cache_salt: str = ""
    num_prompt_tokens: int = 0
    token_ids: list[int] = field(default_factory=list)
    last_used: float = 0.0
    temperature: float = 0.0
    """0 where the target's likeliest token is taken."""
    seed: int = 0
    """Keys the noise of the target's draws; see dspark.keyed_noise."""

    def __len__(self) -> int:
        return len(self.token_ids)
