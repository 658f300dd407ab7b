"""Texts that no source learns from, and the acceptance of sources on them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.sources.interface import CandidateSource
from dspark.training.replay import Acceptance, TextFeatures, replay
from dspark.training.text_store import StoredText

Text = TypeVar("Text")

HELD_OUT_EVERY = 20
MAX_REPLAYED = 60
REPORT_NODES = 15


def split(texts: Sequence[Text]) -> tuple[list[Text], list[Text]]:
    """Those to learn from, and every 20th. Raises ValueError when there are too few."""
    learned = [text for index, text in enumerate(texts) if index % HELD_OUT_EVERY]
    if not learned:
        raise ValueError(f"{len(texts)} texts are too few")
    return learned, list(texts[::HELD_OUT_EVERY])


def acceptance_of(
    sources: Sequence[CandidateSource],
    texts: Sequence[StoredText],
    vocab_size: int,
    layers: tuple[int, ...] = (),
) -> Acceptance:
    """Of trees of ``REPORT_NODES`` nodes, over the first texts.

    ``layers`` are those of the texts' features; without, no source sees any.
    """
    config = CandidatesConfig(propose_deadline_ms=1e6, vocab_size=vocab_size)
    acceptance = Acceptance()

    async def run() -> None:
        proposer = Proposer(sources, config)
        for index, text in enumerate(texts[:MAX_REPLAYED]):
            token_ids, num_prompt = text.token_ids.tolist(), text.num_prompt_tokens
            features = TextFeatures(layers, text.features) if layers else None
            await replay(
                proposer, str(index), token_ids, num_prompt, REPORT_NODES, acceptance, features
            )

    asyncio.run(run())
    return acceptance
