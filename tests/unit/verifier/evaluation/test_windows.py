"""Windows of a text: every token is scored once, with the context that it has there."""

from __future__ import annotations

import pytest

from dspark.verifier.evaluation.windows import Window, windows


def scored(window: Window) -> tuple[int, ...]:
    return window.token_ids[window.num_context :]


@pytest.mark.parametrize("prefix", [(), (7,), (7, 8)])
@pytest.mark.parametrize("size", [4, 5, 16, 100])
@pytest.mark.parametrize("length", [2, 3, 15, 16, 17, 31, 64])
def test_every_token_is_scored_once(prefix: tuple[int, ...], size: int, length: int) -> None:
    text = range(100, 100 + length)
    cut = list(windows(text, prefix, size))
    assert [token for window in cut for token in scored(window)] == list(text[not prefix :])
    assert sum(window.num_scored for window in cut) == length - (not prefix)
    for window in cut:
        assert len(window.token_ids) <= size
        assert 0 < window.num_context < len(window.token_ids)
        assert window.token_ids[: len(prefix)] == prefix
        follows = window.token_ids[len(prefix) :]
        assert follows == tuple(range(follows[0], follows[0] + len(follows)))


def test_only_the_last_window_is_not_full() -> None:
    cut = list(windows(range(10), (), 4))
    assert [window.token_ids for window in cut] == [(0, 1, 2, 3), (3, 4, 5, 6), (6, 7, 8, 9)]
    assert [len(w.token_ids) for w in windows(range(11), (), 4)] == [4, 4, 4, 2]


@pytest.mark.parametrize(("prefix", "size"), [((), 1), ((1,), 2), ((), 0)])
def test_a_window_without_room_is_an_error(prefix: tuple[int, ...], size: int) -> None:
    with pytest.raises(ValueError, match=f"at least {len(prefix) + 2}"):
        list(windows(range(5), prefix, size))
