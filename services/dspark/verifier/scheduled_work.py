"""What a step will compute for one sequence."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from dspark.errors import InvalidArgument
from dspark.step import SequenceWork
from dspark.token_tree import TokenTree
from dspark.verifier.sequence import Sequence
from dspark.verifier.structure.tree_fit import FORCED, FittedTree

_EMPTY = TokenTree()


@dataclass(slots=True)
class ScheduledWork:
    """Rows for one sequence: pending tokens [start, end), then the tree's nodes.

    ``tree`` is what is left of the work's tree; ``kept_nodes`` numbers its nodes as the work did,
    and is FORCED for those that the sequence's grammar added.
    ``places`` says how many slots behind ``end`` each node's K/V is.
    """

    sequence: Sequence
    work: SequenceWork
    start: int
    end: int
    tree: TokenTree = field(default=_EMPTY)
    kept_nodes: tuple[int, ...] = ()
    places: tuple[int, ...] = ()

    @property
    def reaches_end(self) -> bool:
        """Whether the last known token is computed, so that a walk follows."""
        return self.end == self.sequence.num_tokens

    @property
    def num_rows(self) -> int:
        return self.end - self.start + len(self.tree)

    @property
    def num_prompt_logits(self) -> int:
        """Rows of the prompt whose logits are wanted; those of the walk follow them."""
        if not self.sequence.wants_prompt_logprobs:
            return 0
        return max(0, min(self.end, self.sequence.num_prompt_tokens - 1) - self.start)

    @property
    def num_logits(self) -> int:
        """Rows whose logits are wanted: the last ones."""
        return self.num_prompt_logits + (1 + len(self.tree) if self.reaches_end else 0)

    @property
    def num_forced_nodes(self) -> int:
        """Nodes that the sequence's grammar added."""
        return self.kept_nodes.count(FORCED)

    @property
    def max_depth(self) -> int:
        """How deep a node may be and still have a use."""
        return self.sequence.num_remaining - 1

    def set_tree(self, tree: TokenTree, *, max_nodes: int) -> None:
        """Keep at most ``max_nodes`` nodes, none of which is too deep to have a use.

        A node at the depth of the last token that may be committed has none: that token is the
        bonus token of the row above.
        """
        max_depth = self.max_depth
        depths = tree.depths
        keep = [node for node in range(len(tree)) if depths[node] <= max_depth][:max_nodes]
        self.kept_nodes = tuple(keep)
        self.places = tuple(range(len(keep)))
        self.tree = tree if len(keep) == len(tree) else tree.subtree(keep)

    def take(self, fitted: FittedTree) -> None:
        """Go on with a tree that was made of the present one."""
        kept = self.kept_nodes
        self.kept_nodes = tuple(FORCED if n == FORCED else kept[n] for n in fitted.origins)
        self.places = tuple(range(len(fitted.origins)))
        self.tree = fitted.tree

    def drop_all_but(self, nodes: Seq[int]) -> None:
        """Go on with the given nodes alone, ascending, as if no other had been proposed.

        Raises ValueError if the parent of one is not among them.
        """
        self.tree = self.tree.subtree(nodes)
        self.kept_nodes = tuple(self.kept_nodes[node] for node in nodes)
        self.places = tuple(self.places[node] for node in nodes)


def is_usable(tree: TokenTree, vocab_size: int) -> bool:
    """Whether the candidates form a tree over the vocabulary."""
    try:
        tree.validate(vocab_size)
    except InvalidArgument:
        return False
    return True
