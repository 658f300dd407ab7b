"""What of a proposal can be verified for its request."""

from __future__ import annotations

from dspark.errors import InvalidArgument
from dspark.token_tree import TokenTree


def fitting(tree: TokenTree, vocab_size: int, max_nodes: int, max_depth: int) -> TokenTree:
    """The first nodes within the limits; the empty tree if the tree or a score is not valid."""
    try:
        tree.validate(vocab_size)
    except InvalidArgument:
        return TokenTree()
    # A NaN fails the comparison.
    if not all(0.0 < score <= 1.0 for score in tree.scores):
        return TokenTree()
    if any(mask >> len(tree.source_names) for mask in tree.source_masks):
        return TokenTree()
    if len(tree) <= max_nodes and max(tree.depths, default=0) <= max_depth:
        return tree
    return tree.subtree([node for node, d in enumerate(tree.depths) if d <= max_depth][:max_nodes])
