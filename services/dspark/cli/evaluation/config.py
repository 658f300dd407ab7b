"""Settings of ``dspark eval``."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.models.known import DEFAULT_MODEL
from dspark.config import flag_of, setting
from dspark.verifier.config import KERNELS, WEIGHT_DTYPES, VerifierConfig

# What "auto" means depends on the model, so it could be the same on both sides.
DTYPES = tuple(dtype for dtype in WEIGHT_DTYPES if dtype != "auto")
_CHOICE = f"one of {', '.join(DTYPES)}"


@dataclass(frozen=True, slots=True)
class EvalConfig:
    """Two weight dtypes of a model, and how much of each is looked at."""

    model: str = setting(
        DEFAULT_MODEL, "known name, directory, FILE.gguf or hub id (organisation/name)"
    )
    weight_dtype: str = setting("int8", f"weights to judge: {_CHOICE}")
    reference: str = setting("bf16", f"weights to judge them by: {_CHOICE}")
    kernels: str = setting("auto", "matmul kernels of both", choices=KERNELS)
    max_tokens: int = setting(128, "most tokens that continue a prompt")
    context: int = setting(512, "tokens in a window of a text")

    def __post_init__(self) -> None:
        for name in ("weight_dtype", "reference"):
            if getattr(self, name) not in DTYPES:
                given = f"{flag_of(name)} {getattr(self, name)}"
                raise ValueError(f"{given} must be {_CHOICE}")
        if self.weight_dtype == self.reference:
            raise ValueError(f"--weight-dtype and --reference are both {self.reference}")
        if self.max_tokens < 1:
            raise ValueError("--max-tokens must be at least 1")
        if self.context < 2:
            raise ValueError("--context must be at least 2")

    def verifier(self, model: str, weight_dtype: str) -> VerifierConfig:
        """The settings under which one side runs."""
        return VerifierConfig(model=model, weight_dtype=weight_dtype, kernels=self.kernels)
