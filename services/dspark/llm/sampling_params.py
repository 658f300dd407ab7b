"""How an offline LLM draws, in the names and defaults of vLLM's SamplingParams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dspark.client import GenerateOptions
from dspark.errors import InvalidArgument, UnsupportedField
from dspark.llm.sampling_check import check_sampling
from dspark.llm.structured_outputs import StructuredOutputsParams
from dspark.sampling import SpeculationParams

# Fields that scripts for vLLM set; any other value than this one would change the result.
_NEUTRAL: Mapping[str, Any] = {
    "detokenize": True,
    "truncate_prompt_tokens": None,
    "logits_processors": None,
    "extra_args": None,
}
_SAME_IN_CLIENT = (
    *("temperature", "top_p", "top_k", "min_p", "stop", "stop_token_ids", "ignore_eos"),
    *("max_tokens", "min_tokens", "logprobs", "prompt_logprobs", "logit_bias", "bad_words"),
    *("allowed_token_ids", "presence_penalty", "frequency_penalty", "repetition_penalty"),
    *("skip_special_tokens", "include_stop_str_in_output", "speculation"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling parameters of a prompt; what each means and may be: docs/api.md, "Request fields".

    ::

        SamplingParams(temperature=0.8, top_p=0.95, max_tokens=64, n=2, seed=7)

    A ``max_tokens`` of None is the rest of the context, a ``seed`` of None (or -1) is drawn and
    reported with the output. ``speculation`` is True, False or SpeculationParams, and changes the
    speed only. No text depends on ``spaces_between_special_tokens``. Raises InvalidArgument, or
    TypeError for an unknown name, that names the field.
    """

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    structured_outputs: StructuredOutputsParams | None = None
    logit_bias: Mapping[int, float] | None = None
    allowed_token_ids: Sequence[int] | None = None
    bad_words: Sequence[str] | None = None
    truncate_prompt_tokens: None = None
    logits_processors: None = None
    extra_args: None = None
    speculation: bool | SpeculationParams | None = None

    def __post_init__(self) -> None:
        for name, neutral in _NEUTRAL.items():
            if getattr(self, name) not in (neutral, [], {}):
                raise UnsupportedField(name)
        if self.allowed_token_ids is not None and not len(self.allowed_token_ids):
            raise InvalidArgument("allowed_token_ids", "is empty: nothing could be generated")
        structured = self.structured_outputs
        if structured is not None and not isinstance(structured, StructuredOutputsParams):
            raise InvalidArgument("structured_outputs", "must be StructuredOutputsParams")
        check_sampling(self.client_options(), self.n)

    def client_options(self) -> GenerateOptions:
        """The options of ``AsyncClient.generate_choices``, which gets ``n`` beside them."""
        options: Any = {name: getattr(self, name) for name in _SAME_IN_CLIENT}
        options["seed"] = None if self.seed == -1 else self.seed
        if self.structured_outputs is not None:
            options["structured"] = self.structured_outputs.output
        result: GenerateOptions = options
        return result
