from __future__ import annotations

from typing import Any

from bench.acceptance_replay import Tally, observed, replay_all
from dspark.token_tree import TokenTree
from dspark.training.replay import accepted_path

TOP_K = 8
# The text counts from 0 to 9 again and again, which the target is sure of.
PROMPT = [8, 9]
TEXT = [position % 10 for position in range(60)]


def trace() -> dict[str, Any]:
    def likely(after: int) -> list[int]:
        return [(after + step) % 10 for step in range(1, TOP_K + 1)]

    rows = []
    for before in (PROMPT + TEXT)[1:-1]:
        tokens = likely(before)
        rows.append({"tokens": tokens, "top": [likely(token) for token in tokens]})
    return {"set": "s", "kind": "counting", "prompt_ids": PROMPT, "token_ids": TEXT, "rows": rows}


async def test_every_token_is_generated_once() -> None:
    for source in ("suffix", "recycle", "retrieval"):
        (tally,) = (await replay_all([trace()], (source,), 7)).values()
        assert tally.tokens == len(TEXT)
        assert tally.rounds + sum(tally.accepted.values()) == len(TEXT)


async def test_sources_earn_what_the_text_offers() -> None:
    plain = (await replay_all([trace()], ("retrieval",), 7))["s/counting"]
    assert plain.acceptance_length == 1.0
    suffix = (await replay_all([trace()], ("suffix",), 7))["s/counting"]
    # nothing to go by for the first ten tokens, then up to seven nodes a round
    assert suffix.rounds < 10 + (len(TEXT) - 10) / 4
    first, second = await _twice("retrieval")
    assert second.acceptance_length > first.acceptance_length


async def _twice(source: str) -> list[Tally]:
    again = {**trace(), "kind": "again"}
    return list((await replay_all([trace(), again], (source,), 7)).values())


def test_the_walk_ends_where_no_child_fits() -> None:
    tree = TokenTree((5, 1, 2, 3), (0, 0, 2, 3), (1,) * 4, (0.5,) * 4, ("a",))
    assert accepted_path(tree, [1, 2, 9]) == [1, 2]
    assert accepted_path(tree, [7]) == []


def test_rows_of_wrong_siblings_are_observed_too() -> None:
    tree = TokenTree((0, 3, 1, 4), (0, 0, 1, 2), (1,) * 4, (0.5,) * 4, ("a",))
    seen = observed(trace(), 0, tree, accepted_path(tree, TEXT))
    # the anchor, the right child, its wrong sibling, the right grandchild; not the sibling's child
    assert seen.row_token_ids == (9, 0, 3, 1)
    assert seen.top_token_ids[TOP_K : TOP_K + 2] == (1, 2)
