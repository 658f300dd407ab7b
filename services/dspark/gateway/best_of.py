"""The best of the completions that were drawn for each prompt (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dspark.gateway.choice_streams import ChoiceEvent
from dspark.gateway.generation_events import Started
from dspark.gateway.openai_responses import usage_object
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.usage_tally import UsageTally


def best_choices(items: Sequence[ChoiceEvent], n: int, best_of: int) -> list[ChoiceEvent]:
    """The events of the ``n`` best of each ``best_of`` choices in a row, the best first.

    Best is the highest mean log-probability of a token, and of equal ones the first.
    """
    choices: dict[int, list[ChoiceEvent]] = {}
    for item in items:
        choices.setdefault(item.index, []).append(item)
    kept: list[ChoiceEvent] = []
    for prompt in range(len(choices) // best_of):
        drawn = [choices[prompt * best_of + index] for index in range(best_of)]
        ranked = sorted(drawn, key=_mean_logprob, reverse=True)
        for rank, events in enumerate(ranked[:n]):
            kept += [replace(item, index=prompt * n + rank) for item in events]
    return kept


def drawn_fields(items: Sequence[ChoiceEvent], best_of: int) -> dict[str, Any]:
    """What of a response is about all that was drawn: the request's seed, and the usage."""
    tally = UsageTally(best_of)
    for item in items:
        tally.add(item)
    first = next(i.event for i in items if i.index == 0 and isinstance(i.event, Started))
    return {
        "seed": first.seed,
        "usage": usage_object(tally.usage, tally.reasoning_tokens),
    }


def _mean_logprob(events: Sequence[ChoiceEvent]) -> float:
    logprobs = [
        token.logprob
        for item in events
        if isinstance(item.event, TextChunk)
        for token in item.event.logprobs
    ]
    return sum(logprobs) / len(logprobs) if logprobs else float("-inf")
