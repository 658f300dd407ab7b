"""Limits of the engine, all of which are known before a model is loaded or measured."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.verifier.config import VerifierConfig


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """``max_model_len`` 0 means the model's; times are seconds; ``max_tree_nodes`` cuts larger
    trees.

    ``model_digest`` and ``kernel_class`` name what made the K/V, so that the prefix cache never
    mixes two of them. ``is_row_invariant`` says that a row's logits do not depend on its
    neighbours. ``max_prompt_logits`` bounds the rows of a prompt whose log-probabilities are wanted
    in one step: their logits lie in memory side by side.
    """

    num_blocks: int
    block_size: int = 16
    num_evictable_blocks: int = 0
    max_model_len: int = 0
    max_tree_nodes: int = 256
    max_prompt_logits: int = 64
    logprobs_mode: str = "raw"
    lease_s: float = 60.0
    tombstone_s: float = 60.0
    model_digest: str = ""
    kernel_class: str = ""
    is_row_invariant: bool = False

    @classmethod
    def of(
        cls,
        config: VerifierConfig,
        *,
        model_digest: str,
        kernel_class: str,
        is_row_invariant: bool = False,
    ) -> EngineSettings:
        """The settings that a process's configuration asks for."""
        return cls(
            num_blocks=config.num_blocks,
            block_size=config.block_size,
            num_evictable_blocks=config.num_evictable_blocks,
            max_model_len=config.max_model_len,
            logprobs_mode=config.logprobs_mode,
            lease_s=config.lease_s,
            tombstone_s=config.lease_s,
            model_digest=model_digest,
            kernel_class=kernel_class,
            is_row_invariant=is_row_invariant,
        )
