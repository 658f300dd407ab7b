from __future__ import annotations

import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from dspark.candidates.sources.ngram_table import MAX_SCORE, context_hash
from dspark.training.ngram_counts import (
    NgramText,
    context_hashes,
    count,
    counts_of,
    merged,
)
from dspark.training.ngram_tables import build_table


def text(*token_ids: int, start: int = 1) -> NgramText:
    return NgramText.of(np.array(token_ids, dtype=np.uint32), start)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_hashes_are_those_of_the_table(order: int) -> None:
    ids = np.array([5, 49151, 0, 7, 7, 100_000, 3], dtype=np.uint32)
    runs = [ids[start : start + order].tolist() for start in range(len(ids) - order + 1)]
    assert context_hashes(ids, order).tolist() == [context_hash(run) for run in runs]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_table_has_the_most_frequent_continuations(order: int) -> None:
    chance = random.Random(order)
    texts = [text(*chance.choices(range(6), k=60), start=4) for _ in range(5)]
    wanted: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for each in texts:
        ids = each.token_ids.tolist()
        for place in range(max(each.start, order), len(ids)):
            wanted[tuple(ids[place - order : place])][ids[place]] += 1
    table = build_table(texts, [3] * order, [1.0] * order, "digest")
    longest = table.orders[0]
    assert (longest.order, len(longest.keys)) == (order, len(wanted))
    for context, followers in wanted.items():
        found = longest.continuations(context_hash(context))
        counts = [followers[token_id] for token_id, _ in found]
        assert counts == sorted(followers.values(), reverse=True)[:3]
        for (_, score), times in zip(found, counts, strict=True):
            share = times / (followers.total() + 1.0)
            assert score == pytest.approx(share, abs=1 / MAX_SCORE)


def test_what_comes_before_the_answer_is_context_only() -> None:
    counts = count([text(1, 2, 3, 4, start=3)], 2)
    assert counts.next_ids.tolist() == [4]
    assert counts.keys.tolist() == [context_hash((2, 3))]


def test_a_place_is_shared_out_among_what_was_likely_there() -> None:
    ids = np.array([1, 2, 3, 2, 4], dtype=np.uint32)
    likely = np.array([[3, 5], [2, 6], [5, 4]], dtype=np.uint32)
    shares = np.array([[0.7, 0.2], [0.9, 0.1], [0.5, 0.25]], dtype=np.float32)
    counts = count([NgramText(ids, 2, likely, shares)], 1)
    pairs = zip(counts.keys.tolist(), counts.next_ids.tolist(), strict=True)
    found = dict(zip(pairs, counts.counts.tolist(), strict=True))
    two, three = context_hash((2,)), context_hash((3,))
    assert found == pytest.approx(
        {(two, 3): 0.7, (two, 5): 0.7, (two, 4): 0.25, (three, 2): 0.9, (three, 6): 0.1}
    )
    assert sorted(counts.totals.tolist()) == [1, 2]


def test_without_texts_the_table_is_empty() -> None:
    table = build_table([], [2, 2], [1.0, 1.0], "digest")
    assert table.num_contexts == 0
    assert table.successors((1, 2)) == []


def test_a_table_tells_about_what_it_was_counted_from() -> None:
    texts = [text(*[1, 2] * 9, 1, 3)]
    table = build_table(texts, [3], [8.0], "digest")
    counts = counts_of(table.orders[0], 8.0)
    known = count(texts, 1)
    assert counts.keys.tolist() == known.keys.tolist()
    assert counts.next_ids.tolist() == known.next_ids.tolist()
    assert counts.counts == pytest.approx(known.counts, rel=0.1, abs=0.1)
    assert counts.totals == pytest.approx(known.totals, rel=0.1)
    assert sorted(known.counts.tolist()) == [1, 9, 9]


def test_what_was_counted_before_counts_as_well() -> None:
    first, second = text(1, 2, 1, 3, 1, 2), text(1, 2, 4, 4, 1, 3)
    started = build_table(
        [second], [3, 3], [8.0, 4.0], "d", build_table([first], [3, 3], [8.0, 4.0], "d")
    )
    whole = build_table([first, second], [3, 3], [8.0, 4.0], "d")
    for order, expected in zip(started.orders, whole.orders, strict=True):
        assert order.keys == expected.keys
        assert order.scores == pytest.approx(expected.scores, abs=2)


def test_only_counts_of_one_order_can_be_merged() -> None:
    with pytest.raises(ValueError, match="contexts of 1 and of 2 tokens"):
        merged(count([text(1, 2)], 1), count([text(1, 2, 3)], 2))


def test_of_too_many_contexts_the_most_frequent_ones_are_kept() -> None:
    texts = [text(1, 2, 3), text(1, 2, 3), text(1, 2, 4), text(5, 6, 7)]
    whole = build_table(texts, [2, 2], [1.0, 1.0], "d")
    sizes = [len(order.keys) for order in whole.orders]
    assert sizes == [2, 4]
    for limit, contexts in ((6, sizes), (4, [1, 3]), (3, [1, 2]), (2, [0, 2]), (0, [0, 0])):
        table = build_table(texts, [2, 2], [1.0, 1.0], "d", max_contexts=limit)
        assert [len(order.keys) for order in table.orders] == contexts
        for order, full in zip(table.orders, whole.orders, strict=True):
            for key in order.keys:
                assert order.continuations(key) == full.continuations(key)
    table = build_table(texts, [2, 2], [1.0, 1.0], "d", max_contexts=3)
    assert set(table.orders[1].keys) == {context_hash((1,)), context_hash((2,))}
    assert list(table.orders[0].keys) == [context_hash((1, 2))]
