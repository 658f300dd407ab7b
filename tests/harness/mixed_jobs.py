"""A mix of requests: greedy and sampled, short and long, stopping and not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from dspark.sampling import SamplingParams
from harness.whole_stack import Job

TEMPERATURES = (0.0, 0.8, 1.3)
_FILTERS = (
    {},
    {"top_k": 12},
    {"top_p": 0.9},
    {"min_p": 0.05, "top_p": 0.95, "top_k": 40},
)


def sampling_mix(max_tokens: int) -> list[SamplingParams]:
    """Every temperature with several filters and seeds."""
    return [
        SamplingParams(
            temperature=temperature,
            seed=1000 * index + round(temperature * 10),
            max_tokens=max_tokens,
            ignore_eos=index % 2 == 0,
            **filters,  # type: ignore[arg-type]
        )
        for temperature in TEMPERATURES
        for index, filters in enumerate(_FILTERS if temperature else _FILTERS[:1])
    ]


def random_prompts(count: int, vocab_size: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Prompts of 1 to 40 tokens; half of them repeat themselves, and some share a beginning."""
    generator = random.Random(seed)
    shared = tuple(generator.randrange(vocab_size) for _ in range(20))
    prompts = []
    for index in range(count):
        own = tuple(generator.randrange(vocab_size) for _ in range(generator.randint(1, 16)))
        repeated = own * 2 if index % 2 else own
        prompts.append(shared + repeated if index % 3 == 0 else repeated)
    return prompts


def mixed_jobs(prompts: Sequence[tuple[int, ...]], max_tokens: int) -> list[Job]:
    """Each sampling of the mix with one of the prompts, lengths varied."""
    return [
        Job(
            prompts[index % len(prompts)],
            replace(sampling, max_tokens=max(1, max_tokens - 3 * (index % 5))),
        )
        for index, sampling in enumerate(sampling_mix(max_tokens))
    ]
