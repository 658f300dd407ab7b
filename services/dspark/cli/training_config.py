"""Settings of ``dspark train``."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.models.known import DEFAULT_MODEL
from dspark.config import setting
from dspark.verifier.config import WEIGHT_DTYPES


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Each field is a flag; see ``dspark.config``."""

    target: str = setting(
        DEFAULT_MODEL, "model to train for: known name, directory, FILE.gguf or hub id"
    )
    out: str = setting(
        "", "directory of the weights, and of the texts that they are made of; there is no default"
    )
    self_generate: int = setting(
        0, "answer tokens that the target makes to requests of its own, beside those to --data"
    )
    max_answer_tokens: int = setting(220, "tokens of the longest answer")
    texts_at_once: int = setting(64, "texts that the target writes side by side")
    weight_dtype: str = setting("auto", "the target's weights", choices=WEIGHT_DTYPES)
    threads: int = setting(0, "CPU threads; 0: one for each processor")
    steps: int = setting(900, "steps of sources that are optimised; ngram has none")
    start_from: str | None = setting(
        None,
        "weights of this source and target to learn on from, such as those that ship; unset: none",
    )
    draft_layers: int = setting(3, "layers of the source draft, from the target's own")
    table_contexts: int = setting(
        640_000, "most contexts of the table of ngram, about 13 bytes each: the most frequent ones"
    )
    seed: int = setting(0, "start of all random choices")

    def __post_init__(self) -> None:
        """Raises ValueError, with the flag."""
        if not self.out:
            raise ValueError("--out: name a directory")
        if self.self_generate < 0 or self.threads < 0 or self.seed < 0:
            raise ValueError("--self-generate, --threads and --seed: must not be below 0")
        if self.steps < 1 or self.draft_layers < 1 or self.table_contexts < 1:
            raise ValueError("--steps, --draft-layers and --table-contexts: must be at least 1")
        if self.max_answer_tokens < 2 or self.texts_at_once < 1:
            raise ValueError("--max-answer-tokens: at least 2; --texts-at-once: at least 1")
