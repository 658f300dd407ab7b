"""Fault 22: what is different must never share a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dspark.candidates.sources.context_key import context_key, namespace

pair = st.tuples(st.text(max_size=6), st.text(max_size=6))


@given(pair, pair)
def test_only_equal_models_and_tenants_share_a_namespace(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    assert (namespace(*first) == namespace(*second)) == (first == second)


@given(pair, pair)
def test_no_namespace_is_the_beginning_of_another(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    if first != second:
        assert not namespace(*first).startswith(namespace(*second))


def test_a_field_cannot_pose_as_its_neighbour() -> None:
    spaces = {
        namespace("X", ""),
        namespace("", "X"),
        namespace("X\0\0\0\0", ""),
        namespace("a", "bc"),
        namespace("ab", "c"),
    }
    assert len(spaces) == 5


def test_keys_tell_contexts_apart() -> None:
    space = namespace("m", "t")
    contexts = [(1,), (1, 0), (0, 1), (256,), (1, 2), (2, 1), (1, 2, 3), (2**32 - 1,)]
    assert len({context_key(space, context).to_bytes() for context in contexts}) == len(contexts)
    assert context_key(space, (1, 2)) == context_key(space, [1, 2])
    assert context_key(namespace("m", "u"), (1,)).to_bytes() != context_key(space, (1,)).to_bytes()
