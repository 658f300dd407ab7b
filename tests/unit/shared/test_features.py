"""Features as values: cut to the latest, and put together where they are consecutive."""

from __future__ import annotations

import pytest

from dspark.features import Features


def features(first: int, *values: int, size: int = 1) -> Features:
    """A token for each value, one layer."""
    data = b"".join(value.to_bytes(2, "little") * size for value in values)
    return Features(first, (len(values), 1, size), data)


def test_the_last_ones() -> None:
    given = features(5, 1, 2, 3, size=2)
    assert given.end == 8
    assert given.last(2) == features(6, 2, 3, size=2)
    assert given.last(3) == given.last(9) == given


def test_consecutive_ones_are_put_together() -> None:
    assert features(5, 1, 2).then(features(7, 3)) == features(5, 1, 2, 3)


@pytest.mark.parametrize("later", [features(8, 3), features(6, 3), features(7, 3, size=2)])
def test_after_a_gap_or_another_shape_only_the_later_ones_count(later: Features) -> None:
    assert features(5, 1, 2).then(later) == later


def test_data_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes"):
        Features(0, (1, 1, 1), b"123")
