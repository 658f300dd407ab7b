from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import pytest

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources import retrieval
from dspark.candidates.sources.context_key import ContextKey
from dspark.candidates.sources.counted import Counted
from dspark.candidates.sources.interface import DraftRequest
from dspark.candidates.sources.retrieval import RetrievalSource
from dspark.candidates.sources.store import ContinuationStore, Lesson, MemoryStore
from dspark.token_tree import TokenTree


def sequence(*token_ids: int, prompt: int = 1, salt: str = "") -> LiveSequence:
    return LiveSequence("r", 0, salt, prompt, list(token_ids))


def propose(source: RetrievalSource, live: LiveSequence, nodes: int = 15) -> TokenTree:
    trees = source.propose([DraftRequest(live, nodes, 16)], 0.0)
    assert isinstance(trees, list)
    return trees[0]


@pytest.fixture
async def source() -> AsyncIterator[RetrievalSource]:
    source = RetrievalSource(MemoryStore(1000), "model")
    await source.start()
    yield source
    await source.close()


async def teach(source: RetrievalSource, *texts: LiveSequence) -> None:
    for text in texts:
        source.release(text, completed=True)
        await source.drain()


async def test_a_later_request_continues_like_a_finished_one(source: RetrievalSource) -> None:
    await teach(source, sequence(1, 2, 3, 4, 5, 6, 7, 8, 9))
    tree = propose(source, sequence(50, 51, 3, 4))
    assert tree.token_ids == (5, 6, 7, 8)
    assert tree.parents == (0, 1, 2, 3)


async def test_the_longest_known_context_decides(source: RetrievalSource) -> None:
    await teach(
        source,
        *[sequence(9, 2, 3, 100, 101, 102)] * 3,
        sequence(1, 2, 3, 200, 201, 202),
    )
    assert propose(source, sequence(1, 2, 3), nodes=1).token_ids == (200,)
    assert propose(source, sequence(5, 2, 3), nodes=1).token_ids == (100,)


async def test_branches_go_by_count(source: RetrievalSource) -> None:
    await teach(source, sequence(2, 3, 7), *[sequence(2, 3, 8)] * 2, sequence(2, 3, 9))
    tree = propose(source, sequence(2, 3))
    assert tree.token_ids[0] == 8
    assert set(tree.token_ids) == {7, 8, 9}
    assert tree.scores[0] > tree.scores[1] == tree.scores[2]


async def test_only_completed_requests_teach_and_only_what_they_generated(
    source: RetrievalSource,
) -> None:
    source.release(sequence(1, 2, 3, 4), completed=False)
    await teach(source, sequence(5, 6, 7, 8, prompt=3))
    assert len(propose(source, sequence(1, 2))) == 0
    assert len(propose(source, sequence(5, 6))) == 0
    assert propose(source, sequence(6, 7)).token_ids == (8,)


async def test_tenants_do_not_see_each_other(source: RetrievalSource) -> None:
    await teach(source, sequence(1, 2, 3, salt="a"))
    assert len(propose(source, sequence(1, 2, salt="a"))) == 1
    assert len(propose(source, sequence(1, 2, salt="b"))) == 0
    assert len(propose(source, sequence(1, 2))) == 0


async def test_models_do_not_see_each_other() -> None:
    store = MemoryStore(1000)
    first, second = RetrievalSource(store, "first"), RetrievalSource(store, "second")
    await first.start()
    await teach(first, sequence(1, 2, 3))
    assert len(propose(first, sequence(1, 2))) == 1
    assert len(propose(second, sequence(1, 2))) == 0
    await first.close()


async def test_a_text_too_short_for_any_context_has_no_tree(source: RetrievalSource) -> None:
    await teach(source, sequence(1, 2, 3))
    trees = source.propose(
        [DraftRequest(sequence(1), 5, 5), DraftRequest(sequence(1, 2), 5, 5)], 0.0
    )
    assert isinstance(trees, list)
    assert [len(tree) for tree in trees] == [0, 1]


async def test_learning_gives_way_to_other_work(source: RetrievalSource) -> None:
    source.release(sequence(*range(2000)), completed=True)
    turns = 0
    while len(propose(source, sequence(1997, 1998))) == 0:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100


async def test_too_many_finished_requests_are_dropped_and_counted(
    source: RetrievalSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "MAX_QUEUED_SEQUENCES", 2)
    for number in range(5):
        source.release(sequence(number, number + 1, number + 2), completed=True)
    await source.drain()
    assert source.counts["dropped"] == 3


async def test_the_memory_store_forgets_what_was_not_used() -> None:
    store = MemoryStore(2)
    keys = [ContextKey(b"s", 1, bytes([number])) for number in range(3)]
    await store.learn([(keys[0], (1,)), (keys[1], (2,))])
    assert store.lookup([keys[0]]) == [[((1,), 1)]]
    await store.learn([(keys[2], (3,))])
    assert store.lookup(keys) == [[((1,), 1)], [], [((3,), 1)]]
    assert len(store) == 2


class BrokenStore(ContinuationStore):
    """Fails to learn the first batch."""

    def __init__(self) -> None:
        self.counts = Counter()
        self.learnt: list[Lesson] = []
        self._has_failed = False

    def lookup(self, keys: Sequence[ContextKey]) -> list[Counted]:
        return [[] for _ in keys]

    async def learn(self, lessons: Sequence[Lesson]) -> None:
        if not self._has_failed:
            self._has_failed = True
            raise RuntimeError("no disk")
        self.learnt.extend(lessons)


async def test_a_store_that_raises_does_not_end_the_learning() -> None:
    store = BrokenStore()
    source = RetrievalSource(store, "m")
    await source.start()
    await teach(source, sequence(1, 2, 3), sequence(4, 5, 6))
    assert source.counts["raised"] == 1
    assert (6,) in [token_ids for _, token_ids in store.learnt]
    await source.close()
