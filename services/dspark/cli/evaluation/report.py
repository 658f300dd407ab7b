"""From the results of both sides to figures for each text and each kind of prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from dspark.cli.evaluation.inputs import EvalInputs
from dspark.verifier.evaluation.agreement import Agreement
from dspark.verifier.evaluation.perplexity import perplexity
from dspark.verifier.evaluation.results import EvaluationResult, TextScore


def evaluation_report(
    inputs: EvalInputs, reference: EvaluationResult, other: EvaluationResult
) -> dict[str, Any]:
    """The JSON output: how both ran, then a row a text, a kind of prompt and a prompt."""
    kinds = [prompt.kind for prompt in inputs.prompts]
    return {
        "reference": dataclasses.asdict(reference.run),
        "other": dataclasses.asdict(other.run),
        "texts": [
            {"file": str(text.path), **text_figures(*scores)}
            for text, *scores in zip(inputs.texts, reference.texts, other.texts, strict=True)
        ],
        "kinds": [
            {"kind": kind, **agreement_figures(_of_kind(kind, kinds, other.agreements))}
            for kind in dict.fromkeys(kinds)
        ],
        "overall": agreement_figures(other.agreements) if kinds else None,
        "prompts": [
            {"kind": kind, **agreement_figures([each])}
            for kind, each in zip(kinds, other.agreements, strict=True)
        ],
    }


def text_figures(reference: TextScore, other: TextScore) -> dict[str, Any]:
    """Perplexities of one text; ``ratio`` above 1 means that the other predicts it worse."""
    expected = perplexity(reference.log_probability, reference.num_tokens)
    found = perplexity(other.log_probability, other.num_tokens)
    return {
        "tokens": reference.num_tokens,
        "perplexity": {"reference": expected, "other": found},
        "ratio": found / expected,
    }


def agreement_figures(agreements: Sequence[Agreement]) -> dict[str, Any]:
    """Shares and means over all positions of at least one prompt.

    ``common_prefix`` and ``length`` are means over prompts, ``identical`` counts prompts.
    """
    num_tokens = sum(each.num_tokens for each in agreements)
    return {
        "prompts": len(agreements),
        "tokens": num_tokens,
        "same_top": sum(each.num_same_top for each in agreements) / num_tokens,
        "kl": sum(each.kl_sum for each in agreements) / num_tokens,
        "common_prefix": sum(each.common_prefix for each in agreements) / len(agreements),
        "length": num_tokens / len(agreements),
        "identical": sum(each.common_prefix == each.num_tokens for each in agreements),
    }


def _of_kind(kind: str, kinds: Sequence[str], agreements: Sequence[Agreement]) -> list[Agreement]:
    return [each for each, own in zip(agreements, kinds, strict=True) if own == kind]
