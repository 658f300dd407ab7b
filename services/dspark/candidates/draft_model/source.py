"""``draft``: a small causal language model of its own, which guesses by decoding ahead.

Speculative decoding with a draft model: Leviathan et al. 2023 (arXiv:2211.17192), Chen et al. 2023
(arXiv:2302.01318); with trees of it: SpecInfer (Miao et al. 2024, arXiv:2305.09781).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch

from dspark.candidates.draft_model.causal_model import load_causal_model
from dspark.candidates.draft_model.draft_directory import read_draft_directory
from dspark.candidates.draft_model.tree_drafter import DraftWish, TreeDrafter, check_trees
from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import (
    CandidateSource,
    DraftRequest,
    SourceVitals,
    Trees,
)
from dspark.token_tree import TokenTree


class DraftSource(CandidateSource):
    """Drafts in a thread of its own.

    The model's KV of each sequence is held up to a limit of tokens, and dropped on release.
    """

    name = "draft"

    def __init__(self, drafter: TreeDrafter) -> None:
        self._drafter = drafter
        # More threads would spin on processors that the verifier needs.
        self._thread = ThreadPoolExecutor(
            1, "draft", initializer=torch.set_num_threads, initargs=(1,)
        )
        self._running: Future[list[TokenTree]] | None = None
        self._num_busy = 0

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> Trees | Awaitable[Trees]:
        """A request whose text the model has not read yet gets no guess, and a piece is read.

        Raises TimeoutError while a late round is under way.
        """
        if self._running is not None and not self._running.done():
            self._num_busy += 1
            raise TimeoutError("the last round is still under way")
        wishes = [_wish(request) for request in requests]
        self._running = self._thread.submit(self._drafter.draft, wishes, deadline)
        return asyncio.wrap_future(self._running)

    def release(self, sequence: LiveSequence, completed: bool) -> None:
        self._thread.submit(self._drafter.forget, sequence)

    def vitals(self) -> SourceVitals:
        caches = self._drafter.caches
        return SourceVitals(
            caches.num_tokens, {"evicted": caches.num_evicted, "busy": self._num_busy}
        )

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _wish(request: DraftRequest) -> DraftWish:
    sequence = request.sequence
    return DraftWish(
        sequence,
        tuple(sequence.token_ids),
        request.max_nodes,
        request.max_depth,
        sequence.temperature,
        sequence.seed,
        request.price,
    )


def draft_source(weights: LearnedWeights, model_dir: Path, max_kv_tokens: int) -> DraftSource:
    """Raises ValueError for a directory that is damaged or does not fit the target."""
    directory = read_draft_directory(weights, model_dir)
    model = load_causal_model(directory.path, directory.token_ids)
    check_trees(model)
    drafter = TreeDrafter(
        model,
        num_ids=directory.num_ids,
        error_scale=directory.error_scale,
        max_kv_tokens=max_kv_tokens,
    )
    return DraftSource(drafter)
