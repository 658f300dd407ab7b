"""Faults 23, 25 and 28: whatever a source does costs speed at most."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.sources.interface import CandidateSource, DraftRequest, Trees
from dspark.proposal import (
    CandidatesUpdate,
    ProposeItem,
    ProposeOutcome,
    SequenceEnd,
    SequenceUpdate,
    Successors,
)
from dspark.token_tree import TokenTree
from harness.scripted_drafters import SCRIPTS, adversary, garbage, oracle
from harness.scripted_sources import CrashingSource, ScriptedSource, SlowSource

VOCAB_SIZE = 100
CONFIG = CandidatesConfig(vocab_size=VOCAB_SIZE, propose_deadline_ms=50, max_source_failures=3)
NOTHING = CandidatesUpdate()


def truth(token_ids: Sequence[int]) -> list[int]:
    """Plain decoding counts up."""
    return [(token_ids[-1] + step) % VOCAB_SIZE for step in range(1, 20)]


def scripted(name: str) -> ScriptedSource:
    return ScriptedSource(name, SCRIPTS[name], truth, VOCAB_SIZE)


def start(*request_ids: str, epoch: int = 0) -> CandidatesUpdate:
    return CandidatesUpdate(
        tuple(SequenceUpdate(request_id, epoch, 0, (1, 2, 3), 2) for request_id in request_ids)
    )


def item(request_id: str = "a", epoch: int = 0, base_len: int = 3, **changes: Any) -> ProposeItem:
    return dataclasses.replace(ProposeItem(request_id, epoch, base_len, 7, 7), **changes)


async def propose(
    *sources: CandidateSource, items: Sequence[ProposeItem] = (item(),)
) -> ProposeOutcome:
    return await Proposer(sources, CONFIG).propose(start("a", "b"), items)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
async def test_every_script_gives_a_valid_tree(name: str) -> None:
    proposer = Proposer([scripted(name)], CONFIG)
    await proposer.propose(start("a"), [])
    for _ in range(8):
        outcome = await proposer.propose(NOTHING, [item()])
        tree = outcome.proposals[0].tree
        tree.validate(VOCAB_SIZE)
        assert len(tree) <= 7


async def test_each_item_gets_a_tree_of_its_own_sequence_epoch_and_length() -> None:
    proposer = Proposer([scripted("oracle")], CONFIG)
    proposer.observe(start("a", "b", epoch=4))
    proposer.observe(CandidatesUpdate((SequenceUpdate("b", 4, 3, (40,)),)))
    outcome = await proposer.propose(NOTHING, [item("b", 4, 4, max_nodes=2), item("a", 4)])
    assert [(p.request_id, p.epoch, p.base_len) for p in outcome.proposals] == [
        ("b", 4, 4),
        ("a", 4, 3),
    ]
    assert [p.tree.token_ids for p in outcome.proposals] == [
        (41, 42),
        (4, 5, 6, 7, 8, 9, 10),
    ]
    assert outcome.unknown_request_ids == ()


@pytest.mark.parametrize("stale", [item("x"), item(epoch=1), item(base_len=2), item(base_len=4)])
async def test_an_item_of_another_state_is_unknown_and_hurts_no_other(stale: ProposeItem) -> None:
    outcome = await propose(scripted("oracle"), items=[stale, item("b")])
    assert [p.request_id for p in outcome.proposals] == ["b"]
    assert outcome.unknown_request_ids == (stale.request_id,)


async def test_an_update_that_does_not_fit_is_reported_once() -> None:
    proposer = Proposer([scripted("oracle")], CONFIG)
    gap = CandidatesUpdate((SequenceUpdate("a", 0, 9, (1,)),))
    outcome = await proposer.propose(gap, [item(base_len=10)])
    assert outcome.unknown_request_ids == ("a",)
    assert proposer.observe(gap) == ("a",)


async def test_updates_apply_in_order_before_the_items() -> None:
    proposer = Proposer([scripted("oracle")], CONFIG)
    everything = CandidatesUpdate(
        start("a", "b").sequences, (), (SequenceEnd("a", 0, completed=True),)
    )
    outcome = await proposer.propose(everything, [item("a"), item("b")])
    assert outcome.unknown_request_ids == ("a",)
    assert len(proposer.sequences) == 1


async def test_sources_merge_and_each_node_names_its_own() -> None:
    outcome = await propose(scripted("adversary"), scripted("oracle"), scripted("branchy"))
    tree = outcome.proposals[0].tree
    assert tree.source_names == ("adversary", "oracle", "branchy")
    right = tree.token_ids.index(4)
    assert tree.sources_of(right) == ["oracle", "branchy"]
    assert set(outcome.source_costs_ns) == {"adversary", "oracle", "branchy"}


async def test_an_item_may_choose_its_sources() -> None:
    outcome = await propose(
        scripted("adversary"),
        scripted("oracle"),
        items=[item(sources=("oracle",)), item("b", sources=("adversary", "unheard-of"))],
    )
    first, second = (p.tree for p in outcome.proposals)
    assert {name for node in range(len(first)) for name in first.sources_of(node)} == {"oracle"}
    assert {name for node in range(len(second)) for name in second.sources_of(node)} == {
        "adversary"
    }


async def test_no_source_no_node_no_level_gives_an_empty_tree() -> None:
    items = [
        item(max_nodes=0),
        item(max_depth=0),
        item(sources=("unheard-of",)),
        item("b", max_nodes=1, max_depth=1),
    ]
    outcome = await propose(scripted("oracle"), items=items)
    assert [len(p.tree) for p in outcome.proposals] == [0, 0, 0, 1]


async def test_the_wish_for_nodes_is_capped() -> None:
    config = dataclasses.replace(CONFIG, max_tree_nodes=5)
    proposer = Proposer([scripted("oracle")], config)
    outcome = await proposer.propose(start("a"), [item(max_nodes=10**6, max_depth=10**6)])
    assert len(outcome.proposals[0].tree) == 5


async def test_a_crashing_source_takes_nothing_from_the_others() -> None:
    alone = await propose(scripted("oracle"))
    beside = await propose(CrashingSource(), scripted("oracle"))
    assert beside.proposals[0].tree.token_ids == alone.proposals[0].tree.token_ids


async def test_a_failing_source_is_muted_and_tried_again() -> None:
    config = dataclasses.replace(CONFIG, min_mute_s=0.05, max_mute_s=0.05)
    source = CrashingSource()
    proposer = Proposer([source, scripted("oracle")], config)
    proposer.observe(start("a"))
    runner = proposer.runners[0]
    while not runner.is_muted:
        await proposer.propose(NOTHING, [item()])
    asked = source.num_proposals
    await proposer.propose(NOTHING, [item()])
    assert source.num_proposals == asked
    await asyncio.sleep(0.06)
    await proposer.propose(NOTHING, [item()])
    await proposer.propose(NOTHING, [item()])
    assert source.num_proposals == asked + 1
    assert runner.failures["raised"] >= config.max_source_failures


async def test_failures_are_logged_now_and_then_not_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proposer = Proposer([CrashingSource()], dataclasses.replace(CONFIG, max_source_failures=100))
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            await proposer.propose(start("a"), [item()])
    assert proposer.runners[0].failures["raised"] >= 50
    assert len(caplog.records) == 1


async def test_a_slow_source_is_dropped_at_the_deadline_and_counted() -> None:
    config = dataclasses.replace(CONFIG, propose_deadline_ms=20)
    slow = SlowSource("slow", oracle, truth, VOCAB_SIZE, delay_s=60.0)
    proposer = Proposer([slow, scripted("adversary")], config)
    outcome = await proposer.propose(start("a"), [item()])
    tree = outcome.proposals[0].tree
    assert len(tree) > 0
    assert {name for node in range(len(tree)) for name in tree.sources_of(node)} == {"adversary"}
    await asyncio.sleep(0)
    assert proposer.runners[0].failures == {"late": 1}


async def test_a_callers_shorter_patience_counts() -> None:
    slow = SlowSource("slow", oracle, truth, VOCAB_SIZE, delay_s=60.0)
    proposer = Proposer([slow], dataclasses.replace(CONFIG, propose_deadline_ms=3_600_000))
    outcome = await asyncio.wait_for(proposer.propose(start("a"), [item()], 0.01), timeout=30)
    assert len(outcome.proposals[0].tree) == 0


async def test_a_waiting_source_in_time_is_used() -> None:
    patient = dataclasses.replace(CONFIG, propose_deadline_ms=60_000)
    slow = SlowSource("slow", oracle, truth, VOCAB_SIZE, delay_s=0.01)
    outcome = await Proposer([slow], patient).propose(start("a"), [item()])
    assert outcome.proposals[0].tree.token_ids == (4, 5, 6, 7, 8, 9, 10)
    assert outcome.source_costs_ns["slow"] >= 10_000_000


async def test_a_cancelled_call_ends_its_sources_without_blame() -> None:
    patient = dataclasses.replace(CONFIG, propose_deadline_ms=60_000)
    proposer = Proposer([SlowSource("slow", oracle, truth, VOCAB_SIZE, delay_s=60.0)], patient)
    before = len(asyncio.all_tasks())
    call = asyncio.create_task(proposer.propose(start("a"), [item()]))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before
    assert proposer.runners[0].failures == {}


class OddSource(CandidateSource):
    """Answers with whatever it was given."""

    name = "odd"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> Trees | Awaitable[Trees]:
        answer: Trees = self._answer
        return answer


async def late_crash() -> Trees:
    await asyncio.sleep(0)
    raise RuntimeError("crashed after a while")


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [TokenTree(), TokenTree()],
        42,
        None,
        "x",
        [None],
        [TokenTree(("a",), (0,), (1,), (0.5,), ("odd",))],  # type: ignore[arg-type]
    ],
)
async def test_an_answer_that_is_not_a_tree_a_request_is_dropped(answer: Any) -> None:
    proposer = Proposer([OddSource(answer), scripted("oracle")], CONFIG)
    outcome = await proposer.propose(start("a"), [item()])
    assert outcome.proposals[0].tree.token_ids == (4, 5, 6, 7, 8, 9, 10)
    assert proposer.runners[0].failures == {"garbage": 1}


async def test_a_source_that_talks_garbage_is_muted() -> None:
    proposer = Proposer([OddSource([None])], CONFIG)
    proposer.observe(start("a"))
    for _ in range(CONFIG.max_source_failures):
        await proposer.propose(NOTHING, [item()])
    assert proposer.runners[0].is_muted


async def test_a_crash_while_waiting_is_dropped() -> None:
    proposer = Proposer([OddSource(late_crash()), scripted("oracle")], CONFIG)
    outcome = await proposer.propose(start("a"), [item()])
    assert outcome.proposals[0].tree.token_ids == (4, 5, 6, 7, 8, 9, 10)
    assert proposer.runners[0].failures == {"raised": 1}


async def test_garbage_nodes_never_leave_the_proposer() -> None:
    proposer = Proposer(
        [ScriptedSource("garbage", garbage, truth, VOCAB_SIZE), scripted("oracle")], CONFIG
    )
    proposer.observe(start("a"))
    for _ in range(12):
        outcome = await proposer.propose(NOTHING, [item()])
        outcome.proposals[0].tree.validate(VOCAB_SIZE)
        assert set(range(4, 8)) <= set(outcome.proposals[0].tree.token_ids)


async def test_a_source_that_is_always_wrong_leaves_room_for_the_others() -> None:
    """Fault 25: the same wrong continuation again and again must not crowd out the right one."""
    proposer = Proposer(
        [ScriptedSource("adversary", adversary, truth, VOCAB_SIZE), scripted("branchy")], CONFIG
    )
    proposer.observe(start("a"))
    for _ in range(20):
        outcome = await proposer.propose(NOTHING, [item(max_nodes=15, max_depth=5)])
        assert 4 in outcome.proposals[0].tree.token_ids


async def test_the_vocabulary_is_learned_from_what_passes_by() -> None:
    config = dataclasses.replace(CONFIG, vocab_size=None)
    proposer = Proposer([scripted("oracle")], config)
    first = await proposer.propose(start("a"), [item()])
    assert len(first.proposals[0].tree) == 0
    seen = CandidatesUpdate(successors=(Successors((3,), (4, 6)),))
    second = await proposer.propose(seen, [item()])
    assert second.proposals[0].tree.token_ids == (4, 5, 6)


async def test_the_info_names_the_sources_and_the_largest_top_k() -> None:
    curious = scripted("oracle")
    curious.top_k = 5
    proposer = Proposer([scripted("empty"), curious], CONFIG)
    assert (proposer.info.sources, proposer.info.top_k) == (("empty", "oracle"), 5)
    assert Proposer([], CONFIG).info.top_k == 0
