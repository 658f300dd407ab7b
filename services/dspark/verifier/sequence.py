"""A request as the verifier knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dspark.logprobs import TokenLogprobs
from dspark.sampling import SamplingParams
from dspark.verifier.kv.block_table import BlockTable
from dspark.verifier.sampling.sampler import Sampler
from dspark.verifier.sampling.walk import StopRules
from dspark.verifier.structure.guide import Guide
from dspark.verifier.token_buffer import TokenBuffer


class SuccessorRows(NamedTuple):
    """The token at each row, and as many of the most likely next tokens for each, row after row."""

    row_token_ids: tuple[int, ...] = ()
    top_token_ids: tuple[int, ...] = ()


NO_SUCCESSORS = SuccessorRows()


@dataclass(slots=True)
class Sequence:
    """One incarnation of a request; its counters are its state.

    ``tokens`` are the prompt and all committed tokens. The first ``num_computed`` of them have K/V
    in ``table``, and the first ``num_hashed_blocks`` blocks of that are in the hash chain that ends
    in ``chain``.
    """

    request_id: str
    epoch: int
    sampling: SamplingParams
    sampler: Sampler
    stop_token_ids: frozenset[int]
    num_prompt_tokens: int
    # The last token's position stays below this length.
    max_len: int
    tokens: TokenBuffer
    table: BlockTable
    uses_prefix_cache: bool
    chain: bytes = b""
    num_hashed_blocks: int = 0
    num_cached_tokens: int = 0
    num_computed: int = 0
    last_touched: float = 0.0
    # whether this incarnation has to tell of its prompt, and what it has gathered for that
    wants_prompt_logprobs: bool = False
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    # of its last step, for the next result to tell
    successors: SuccessorRows = NO_SUCCESSORS
    # None where any text will do
    guide: Guide | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_remaining(self) -> int:
        """Tokens that may still be committed before max_tokens or the model's length ends it."""
        return self.max_len - self.num_tokens

    @property
    def may_draw(self) -> bool:
        """Whether all that decides on the next token is at hand."""
        return self.guide is None or self.guide.is_ready

    def take_successors(self) -> SuccessorRows:
        taken, self.successors = self.successors, NO_SUCCESSORS
        return taken

    def stop_rules(self) -> StopRules:
        if self.guide is None:
            return StopRules(self.stop_token_ids, self.num_remaining)
        return StopRules(self.stop_token_ids, self.num_remaining, self.guide.is_complete)
