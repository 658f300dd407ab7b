"""Which processors a sequence has, in the order in which they see its logits."""

from __future__ import annotations

from collections.abc import Callable

from dspark.verifier.sampling.history import History
from dspark.verifier.sampling.logit_bias import make_logit_bias
from dspark.verifier.sampling.logits_processor import LogitsProcessor
from dspark.verifier.sampling.penalties import make_penalties
from dspark.verifier.sampling.token_masks import (
    make_allowed_tokens,
    make_bad_words,
    make_min_tokens,
)

MakeProcessor = Callable[[History], LogitsProcessor | None]

# Penalties see the model's own logits; masks come last, so that nothing undoes them.
_MAKERS: tuple[MakeProcessor, ...] = (
    make_penalties,
    make_logit_bias,
    make_allowed_tokens,
    make_bad_words,
    make_min_tokens,
)


def make_processors(
    history: History, guide: LogitsProcessor | None = None
) -> tuple[LogitsProcessor, ...]:
    """Those that have an effect; none for a request that asks for none. A ``guide`` comes last."""
    made = (*(make(history) for make in _MAKERS), guide)
    return tuple(processor for processor in made if processor is not None)
