"""``python -m harness.adversarial_candidates``: a candidates service whose source does harm.

The variable ``ADVERSARY`` names what it does. Flags are those of the real service.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Sequence

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.server import CandidatesServer
from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.config import parse
from dspark.token_tree import TokenTree, chain

NAME = "adversary"
SLOW_S = 0.015


def wrong(request: DraftRequest, vocab_size: int) -> TokenTree:
    """Sure of tokens that never come: the last one, again and again."""
    last = request.sequence.token_ids[-1]
    return chain([last] * min(request.max_nodes, request.max_depth), NAME, 0.97)


def anything(request: DraftRequest, vocab_size: int) -> TokenTree:
    """Trees of any shape, of any tokens with any scores."""
    dice = random.Random(len(request.sequence))
    size = request.max_nodes
    return TokenTree(
        tuple(dice.randrange(vocab_size) for _ in range(size)),
        tuple(dice.randint(0, node) for node in range(size)),
        (1,) * size,
        tuple(dice.uniform(0.01, 1.0) for _ in range(size)),
        (NAME,),
    )


def slow(request: DraftRequest, vocab_size: int) -> TokenTree:
    """Wrong, and it blocks everything else meanwhile."""
    time.sleep(SLOW_S)
    return wrong(request, vocab_size)


ADVERSARIES: dict[str, Callable[[DraftRequest, int], TokenTree]] = {
    "wrong": wrong,
    "random": anything,
    "slow": slow,
}


class Adversary(CandidateSource):
    """A source that makes a tree for each request by one of the functions above."""

    name = NAME

    def __init__(self, kind: str, vocab_size: int) -> None:
        self._make = ADVERSARIES[kind]
        self._vocab_size = vocab_size

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        return [self._make(request, self._vocab_size) for request in requests]


async def serve(config: CandidatesConfig, kind: str) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    source = Adversary(kind, config.vocab_size or 1000)
    server = CandidatesServer(Proposer([source], config), config)
    await server.start()
    await stopping.wait()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(serve(parse(CandidatesConfig, "Does harm."), os.environ["ADVERSARY"]))
