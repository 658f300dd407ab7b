"""Offline generation: ``LLM(model=...).generate(prompts, SamplingParams(...))`` in vLLM's shape."""

from dspark.cli.models.known import DEFAULT_MODEL
from dspark.llm.failure import PromptFailed, StartFailed
from dspark.llm.llm import LLM
from dspark.llm.outputs import CompletionOutput, Logprob, RequestOutput
from dspark.llm.sampling_params import SamplingParams
from dspark.llm.structured_outputs import StructuredOutputsParams
from dspark.sampling import SpeculationParams

__all__ = [
    "DEFAULT_MODEL",
    "LLM",
    "CompletionOutput",
    "Logprob",
    "PromptFailed",
    "RequestOutput",
    "SamplingParams",
    "SpeculationParams",
    "StartFailed",
    "StructuredOutputsParams",
]
