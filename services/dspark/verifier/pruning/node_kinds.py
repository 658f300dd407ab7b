"""Kinds of nodes that differ in how likely they are right: each has a threshold of its own."""

from __future__ import annotations

from dspark.token_tree import TokenTree

# drawn with noise or not, x child of the anchor or deeper, x first child of its parent or later
NUM_KINDS = 8


def kinds_of(tree: TokenTree, is_drawn: bool) -> list[int]:
    """The kind of each node, below NUM_KINDS; ``is_drawn`` says that the temperature is above 0."""
    seen: set[int] = set()
    kinds: list[int] = []
    for parent in tree.parents:
        kinds.append(4 * is_drawn + 2 * (parent != 0) + (parent in seen))
        seen.add(parent)
    return kinds
