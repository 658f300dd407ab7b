"""Cheap sources go first, and a dear one is asked where they leave it room."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.proposal import CandidatesUpdate, ProposeItem, SequenceUpdate
from dspark.token_tree import TokenTree, chain

START = CandidatesUpdate((SequenceUpdate("r", 1, 0, (1, 2, 3), 2),))
FIVE_MS = 5_000_000


class Chain(CandidateSource):
    """Proposes a path of as many nodes as wanted, all with one score."""

    def __init__(self, name: str, score: float, asked: list[str]) -> None:
        self.name = name
        self._score = score
        self._asked = asked

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        self._asked.append(self.name)
        return [chain(range(r.max_nodes), self.name, self._score) for r in requests]


async def asked_of(score: float, price: float) -> list[str]:
    """Who is asked, in order, where the cheap source has this score and the dear one takes 5 ms."""
    asked: list[str] = []
    sources = [Chain("dear", 0.5, asked), Chain("cheap", score, asked)]
    proposer = Proposer(sources, CandidatesConfig(vocab_size=100, propose_deadline_ms=1000))
    proposer.runners[0].rate.add(1, 1, FIVE_MS)
    item = ProposeItem("r", 1, 3, 4, 8, price=price)
    await proposer.propose(START, [item])
    return asked


async def test_the_cheap_source_is_heard_first() -> None:
    assert await asked_of(0.2, price=0.05) == ["cheap", "dear"]


async def test_a_tree_full_of_likely_nodes_leaves_no_room() -> None:
    assert await asked_of(0.95, price=0.05) == ["cheap"]


@pytest.mark.parametrize(("price", "is_asked"), [(0.05, True), (1.0, False)])
async def test_the_price_of_time_decides(price: float, is_asked: bool) -> None:
    assert ("dear" in await asked_of(0.2, price)) == is_asked


async def test_without_a_price_all_are_asked() -> None:
    assert await asked_of(0.95, price=0.0) == ["cheap", "dear"]
