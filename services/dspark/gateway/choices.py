"""The choices of a request: several prompts, and several answers to each (pure).

Choice i of a request that has the seed s draws with the seed ``choice_seed(s, i)``, for ever: with
the request's own seed the first choice, so that it is the answer to a request for one choice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from dspark.errors import InvalidArgument
from dspark.gateway.token_source import GenerationRequest

_LABEL = b"dspark choice"
_WORD = 8
_TOO_MANY = "a request may have at most {limit} choices"


def choice_seed(seed: int, index: int) -> int:
    """The seed itself for choice 0; 63 bits of a SHA-256 for any other.

    They are the first eight bytes, little-endian and without the lowest bit, of the digest of the
    label, the seed and the index, each number as eight bytes, little-endian.
    """
    if index == 0:
        return seed
    words = seed.to_bytes(_WORD, "little") + index.to_bytes(_WORD, "little")
    digest = hashlib.sha256(_LABEL + words).digest()
    return int.from_bytes(digest[:_WORD], "little") >> 1


def check_choices(num_prompts: int, n: int, limit: int, field: str = "n") -> None:
    """Raises InvalidArgument that names the field of n, or the prompts if they are too many."""
    if n < 1:
        raise InvalidArgument(field, "must be at least 1")
    if num_prompts > limit:
        problem = f"has {num_prompts} prompts; {_TOO_MANY.format(limit=limit)}"
        raise InvalidArgument("prompt", problem)
    if num_prompts * n > limit:
        prompts = "" if num_prompts == 1 else f"for each of {num_prompts} prompts is too much: "
        raise InvalidArgument(field, prompts + _TOO_MANY.format(limit=limit))


def choice_requests(prompts: Sequence[GenerationRequest], n: int) -> list[GenerationRequest]:
    """The requests of all choices, n of each prompt in a row; the first prompt's seed is theirs."""
    seed = prompts[0].sampling.seed
    requests: list[GenerationRequest] = []
    for prompt in prompts:
        first = _choice(prompt, seed, len(requests))
        others = (replace(prompt, beside=first.request_id) for _ in range(n - 1))
        requests.append(first)
        requests += [_choice(other, seed, len(requests) + i) for i, other in enumerate(others)]
    return requests


def _choice(request: GenerationRequest, seed: int, index: int) -> GenerationRequest:
    if index == 0:
        return request
    return replace(
        request,
        request_id=f"{request.request_id}-{index}",
        sampling=replace(request.sampling, seed=choice_seed(seed, index)),
    )
