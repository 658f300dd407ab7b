"""How tokens are drawn and when a request ends, as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from dspark.errors import InvalidArgument
from dspark.sampling_limits import check_options
from dspark.structured_output import StructuredOutput

MAX_TEMPERATURE = 100.0


class FinishReason(Enum):
    """Why a request ended; the value is the word used in the OpenAI surface."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters with every default applied; sampling.proto says what each means.

    An empty ``allowed_token_ids`` means all; None means that no log-probabilities are wanted.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    max_tokens: int = 16
    stop_token_ids: frozenset[int] = field(default_factory=frozenset)
    ignore_eos: bool = False
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    # (token id, what is added to its logit)
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    allowed_token_ids: frozenset[int] = field(default_factory=frozenset)
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    structured: StructuredOutput | None = None

    def validate(self, vocab_size: int | None = None) -> None:
        """Raise InvalidArgument that names the first field out of range."""
        for name in ("temperature", "top_p", "min_p"):
            if not math.isfinite(getattr(self, name)):
                raise InvalidArgument(name, "must be a finite number")
        if not 0 <= self.temperature <= MAX_TEMPERATURE:
            raise InvalidArgument("temperature", f"must be from 0 to {MAX_TEMPERATURE:g}")
        if self.top_k < 0:
            raise InvalidArgument("top_k", "must be 0 (all tokens) or more")
        if not 0 < self.top_p <= 1:
            raise InvalidArgument("top_p", "must be above 0 and at most 1")
        if not 0 <= self.min_p <= 1:
            raise InvalidArgument("min_p", "must be from 0 to 1")
        if not 0 <= self.seed < 2**64:
            raise InvalidArgument("seed", "must be from 0 to 2**64 - 1")
        if self.max_tokens < 1:
            raise InvalidArgument("max_tokens", "must be at least 1")
        if vocab_size is not None and any(not 0 <= t < vocab_size for t in self.stop_token_ids):
            raise InvalidArgument("stop_token_ids", f"must be token ids from 0 to {vocab_size - 1}")
        check_options(self, vocab_size)


@dataclass(frozen=True, slots=True)
class SpeculationParams:
    """Per-request steering of candidates; changes speed only. None means the server's default.

    ``policy`` names what decides how much is verified for the request; empty means the server's.
    """

    enabled: bool = True
    sources: tuple[str, ...] = ()
    max_draft_tokens: int | None = None
    policy: str = ""


@dataclass(slots=True)
class SourceCounts:
    """Nodes of one source that were verified, and accepted."""

    drafted: int = 0
    accepted: int = 0


@dataclass(slots=True)
class SpeculationStats:
    """What speculation did; rounds are passes that committed, bonus tokens are not counted."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    sources: dict[str, SourceCounts] = field(default_factory=dict)

    def add_nodes(self, source: str, drafted: int, accepted: int) -> None:
        """Count nodes that one source alone proposed."""
        self.drafted += drafted
        self.accepted += accepted
        counts = self.sources.setdefault(source, SourceCounts())
        counts.drafted += drafted
        counts.accepted += accepted


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """Medians over a request's decode steps, in milliseconds.

    ``ahead_ms`` is the part of ``forward_ms`` that was over when the verifier got the step.
    """

    propose_ms: float = 0.0
    verify_ms: float = 0.0
    forward_ms: float = 0.0
    overhead_ms: float = 0.0
    ahead_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Parts of a request's life, in milliseconds; meanings as in the message."""

    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
