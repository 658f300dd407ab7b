"""The target model in this process: the verifier's own engine, without its service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dspark.verifier.config import VerifierConfig
from dspark.verifier.engine import Engine
from dspark.verifier.engine_settings import EngineSettings
from dspark.verifier.interfaces import Progress
from dspark.verifier.model.loader import load_model


@dataclass(frozen=True, slots=True)
class Target:
    """An engine, and the numbers of its model."""

    engine: Engine
    eos_token_ids: frozenset[int]
    hidden_size: int
    vocab_size: int
    max_model_len: int


def load_target(
    directory: Path, weight_dtype: str, kv_tokens: int, num_threads: int, progress: Progress
) -> Target:
    """Load the model as the verifier would. Raises ModelRefused."""
    config = VerifierConfig(
        model=str(directory),
        weight_dtype=weight_dtype,
        kv_tokens=kv_tokens,
        exactness="fast",
        threads=num_threads,
    )
    loaded = load_model(config, progress)
    settings = EngineSettings.of(
        config, model_digest=loaded.model_digest, kernel_class=loaded.kernel_class
    )
    engine = Engine(loaded.runner, loaded.kv, settings)
    runner = loaded.runner
    return Target(
        engine=engine,
        eos_token_ids=runner.eos_token_ids,
        hidden_size=runner.hidden_size,
        vocab_size=runner.vocab_size,
        max_model_len=engine.limits.max_model_len,
    )
