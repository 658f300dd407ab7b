"""The source ``draft`` in its thread: late rounds, releases, and what it says of itself."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.draft_model.causal_model import CausalModel
from dspark.candidates.draft_model.source import DraftSource
from dspark.candidates.draft_model.tree_drafter import DraftWish, TreeDrafter
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.proposal import CandidatesUpdate, ProposeItem, SequenceEnd, SequenceUpdate
from dspark.token_tree import TokenTree
from harness.tiny_models import VOCAB_SIZE, save_tiny_model, tiny_model
from harness.waiting import until

CONFIG = CandidatesConfig(propose_deadline_ms=20_000, vocab_size=VOCAB_SIZE)


class HeldDrafter(TreeDrafter):
    """Drafts when it is let go; ``wishes`` has what it was asked."""

    def __init__(self) -> None:
        super().__init__(
            CausalModel(tiny_model("llama")),
            num_ids=VOCAB_SIZE,
            error_scale=1.0,
            max_kv_tokens=2000,
        )
        self.may_go = threading.Event()
        self.may_go.set()
        self.wishes: list[DraftWish] = []

    def draft(self, wishes: Sequence[DraftWish], deadline: float) -> list[TokenTree]:
        self.wishes += wishes
        assert self.may_go.wait(30)
        return super().draft(wishes, deadline)


def started(length: int = 4, base_len: int = 0) -> CandidatesUpdate:
    tokens = tuple(range(base_len, length))
    return CandidatesUpdate((SequenceUpdate("r", 1, base_len, tokens, 2, "", 0.9, 77),))


def item(length: int = 4) -> ProposeItem:
    return ProposeItem("r", 1, length, 8, 4)


async def test_a_request_is_drafted_for_with_its_temperature_and_seed() -> None:
    drafter = HeldDrafter()
    proposer = Proposer([DraftSource(drafter)], CONFIG)
    outcome = await proposer.propose(started(), [item()])
    assert len(outcome.proposals[0].tree) > 0
    (wish,) = drafter.wishes
    assert (wish.token_ids, wish.temperature, wish.seed) == ((0, 1, 2, 3), 0.9, 77)
    (runner,) = proposer.runners
    assert runner.source.vitals().num_entries > 0
    proposer.observe(CandidatesUpdate(releases=(SequenceEnd("r", 1, True),)))
    await until(lambda: runner.source.vitals().num_entries == 0)
    await proposer.close()


async def test_while_a_round_is_late_there_are_no_guesses_and_no_wait() -> None:
    drafter = HeldDrafter()
    source = DraftSource(drafter)
    proposer = Proposer([source], CONFIG)
    drafter.may_go.clear()
    assert not len((await proposer.propose(started(), [item()], 0.01)).proposals[0].tree)
    (runner,) = proposer.runners
    await until(lambda: runner.failures["late"] == 1)
    # The thread is busy, so this is answered at once although it may take long.
    outcome = await asyncio.wait_for(proposer.propose(CandidatesUpdate(), [item()], 20.0), 10)
    assert not len(outcome.proposals[0].tree)
    assert source.vitals().troubles["busy"] == 1 and len(drafter.wishes) == 1
    drafter.may_go.set()
    trees: list[int] = []

    async def is_answered() -> bool:
        outcome = await proposer.propose(CandidatesUpdate(), [item()], 20.0)
        trees.append(len(outcome.proposals[0].tree))
        return trees[-1] > 0

    async with asyncio.timeout(20):
        while not await is_answered():
            await asyncio.sleep(0.01)
    await proposer.close()


async def test_a_model_that_fails_is_a_failure_of_the_source() -> None:
    drafter = HeldDrafter()

    def fail(*arguments: object) -> None:
        raise RuntimeError("out of memory")

    drafter._model.logits = fail  # type: ignore[method-assign, assignment]
    proposer = Proposer([DraftSource(drafter)], CONFIG)
    outcome = await proposer.propose(started(), [item()])
    assert not len(outcome.proposals[0].tree)
    assert proposer.runners[0].failures["raised"] == 1
    await proposer.close()


def test_without_torch_the_source_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(save_tiny_model("llama", tmp_path))
    for name in [name for name in sys.modules if name.startswith("dspark.candidates.draft_model")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    config = CandidatesConfig(sources=("draft",), model=model, draft_model=model)
    with pytest.raises(
        ValueError, match="draft cannot run: it needs torch, which is not installed"
    ):
        build_sources(config)


def test_a_cache_that_holds_no_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="draft_kv_tokens: must be at least"):
        CandidatesConfig(draft_kv_tokens=10)
