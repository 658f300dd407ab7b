"""What a JSON text holds is counted as a parser would find it, whatever its texts say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.errors import InvalidArgument
from dspark.gateway import json_counts
from dspark.gateway.json_counts import check_counts

TEXT = st.text(alphabet='ab,:[]{}"\\\n', max_size=8)
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=30,
)


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, dict)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


def _num_values(value: Any) -> int:
    return sum(1 + max(len(each) - 1, 0) for each in _containers(value))


def _num_keys(value: Any) -> int:
    return sum(1 + len(each) for each in _containers(value) if isinstance(each, dict))


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_the_limit_is_met_exactly(value: Any, indent: int | None, escapes: bool) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=escapes).encode()
    count = _num_values(value)
    check_counts(body, count)
    if count:
        with pytest.raises(InvalidArgument, match=f"body: has more than {count - 1} values"):
            check_counts(body, count - 1)


@given(VALUES)
def test_keys_are_counted_too(value: Any) -> None:
    body, count = json.dumps(value).encode(), _num_keys(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_counts, "MAX_KEYS", count)
        check_counts(body, 10**6)
        if count:
            patch.setattr(json_counts, "MAX_KEYS", count - 1)
            with pytest.raises(InvalidArgument, match=f"more than {count - 1} keys"):
                check_counts(body, 10**6)


@given(st.text(alphabet='{}[],:"\\1', max_size=40))
def test_what_is_no_json_is_left_to_the_parser(text: str) -> None:
    check_counts(text.encode(), 40)
