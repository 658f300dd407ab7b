"""Token trees on the wire."""

from __future__ import annotations

from dspark.token_tree import TokenTree
from dspark.v1 import token_tree_pb2 as pb


def tree_to_proto(tree: TokenTree) -> pb.TokenTree:
    return pb.TokenTree(
        token_ids=tree.token_ids,
        parents=tree.parents,
        source_masks=tree.source_masks,
        scores=tree.scores,
        source_names=tree.source_names,
    )


def tree_from_proto(message: pb.TokenTree) -> TokenTree:
    """Not validated: call ``TokenTree.validate`` before use."""
    return TokenTree(
        token_ids=tuple(message.token_ids),
        parents=tuple(message.parents),
        source_masks=tuple(message.source_masks),
        scores=tuple(message.scores),
        source_names=tuple(message.source_names),
    )
