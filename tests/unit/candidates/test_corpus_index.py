"""What an index counts is what a store learns that reads the texts one after the other."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.candidates.sources.context_key import context_key
from dspark.candidates.sources.counted import MAX_CONTINUATIONS, MAX_COUNT, Counted
from dspark.candidates.sources.lessons import lessons
from dspark.candidates.sources.store import MemoryStore
from harness.corpora import indexed

TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=40), max_size=5)


async def learnt(texts: list[list[int]]) -> tuple[MemoryStore, dict[bytes, Counted]]:
    """A store that learnt the texts, and what it knows by the contexts' digests."""
    store = MemoryStore(10**9)
    for text in texts:
        await store.learn(list(lessons(b"", text)))
    keys = {key for text in texts for key, _ in lessons(b"", text)}
    return store, {key.digest: store.lookup([key])[0] for key in keys}


@given(TEXTS)
async def test_it_counts_as_a_store_learns(texts: list[list[int]]) -> None:
    store, known = await learnt(texts)
    contexts = indexed(*texts).count()
    entries = dict(contexts)
    assert entries == known
    assert len(contexts) == len(store)


@given(TEXTS)
def test_contexts_come_in_ascending_order(texts: list[list[int]]) -> None:
    digests = [int.from_bytes(digest, "little") for digest, _ in indexed(*texts).count()]
    assert digests == sorted(set(digests))


async def test_continuations_are_bounded_as_in_a_store() -> None:
    draw = random.Random(1)
    text = [token for _ in range(200) for token in (1, 2, draw.randrange(3, 50))]
    _, known = await learnt([text])
    entries = dict(indexed(text).count())
    assert entries == known
    assert len(entries[context_key(b"", (1, 2)).digest]) == MAX_CONTINUATIONS


def test_a_count_ends_at_what_an_entry_holds() -> None:
    entries = dict(indexed([7] * (MAX_COUNT + 100)).count())
    assert (tuple([7] * 4), MAX_COUNT) in entries[context_key(b"", (7, 7)).digest]


def test_no_context_reaches_into_another_text() -> None:
    apart, together = indexed([1, 2, 3], [4, 5, 6]), indexed([1, 2, 3, 4, 5, 6])
    assert apart.num_tokens == together.num_tokens == 6
    assert {digest for digest, _ in apart.count()} == {
        context_key(b"", context).digest for context in ((1, 2), (4, 5))
    }


@pytest.mark.parametrize("texts", [[], [[]], [[1], [2, 3]]])
def test_texts_without_contexts_give_none(texts: list[list[int]]) -> None:
    contexts = indexed(*texts).count()
    assert len(contexts) == 0
    assert list(contexts) == []
