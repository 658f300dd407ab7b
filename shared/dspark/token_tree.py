"""The token tree: candidate tokens that grow from one anchor.

Terms, used with these meanings everywhere:

- anchor: the last known token of a sequence. Its logits row predicts the next token.
- node: one candidate token. ``parents[i]`` is 0 for a child of the anchor, ``j + 1`` for a child
  of node j.
- accepted: a node on the path that the verifier's walk took. The walk ends with one bonus token,
  which is no node.
- score: estimated probability that a node is accepted if its parent is; survival: the product of
  the scores from the anchor down to the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dspark.errors import InvalidArgument


@dataclass(frozen=True)
class TokenTree:
    """Candidates of one sequence; parents come before their children.

    ``token_ids``, ``parents``, ``source_masks`` and ``scores`` each have one entry a node.
    Bit s of a source mask means ``source_names[s]`` proposed the node.
    """

    token_ids: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    source_masks: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    source_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.token_ids)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the anchor; its children have depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == 0 else depths[parent - 1] + 1)
        return tuple(depths)

    @cached_property
    def survivals(self) -> tuple[float, ...]:
        """Product of the scores from the anchor down to each node."""
        survivals: list[float] = []
        for parent, score in zip(self.parents, self.scores, strict=True):
            survivals.append(score if parent == 0 else survivals[parent - 1] * score)
        return tuple(survivals)

    @cached_property
    def children(self) -> tuple[dict[int, int], ...]:
        """For the anchor (entry 0) and node i (entry i + 1): child token id to child's entry."""
        children: list[dict[int, int]] = [{} for _ in range(len(self) + 1)]
        for node, (token_id, parent) in enumerate(zip(self.token_ids, self.parents, strict=True)):
            children[parent].setdefault(token_id, node + 1)
        return tuple(children)

    def ancestors(self, node: int) -> list[int]:
        """Nodes from the anchor's child down to ``node`` itself."""
        path = [node]
        while (parent := self.parents[path[-1]]) != 0:
            path.append(parent - 1)
        return path[::-1]

    def sources_of(self, node: int) -> list[str]:
        """Names of the sources that proposed ``node``."""
        return names_in(self.source_masks[node], self.source_names)

    def subtree(self, nodes: Sequence[int]) -> TokenTree:
        """The tree of the given nodes alone, in their present order.

        Raises ValueError if a kept node's parent is not kept.
        """
        keep = sorted(set(nodes))
        renumber = {node + 1: new + 1 for new, node in enumerate(keep)} | {0: 0}
        if any(self.parents[node] not in renumber for node in keep):
            raise ValueError("a node can be kept only together with its parent")
        return TokenTree(
            token_ids=tuple(self.token_ids[node] for node in keep),
            parents=tuple(renumber[self.parents[node]] for node in keep),
            source_masks=tuple(self.source_masks[node] for node in keep),
            scores=tuple(self.scores[node] for node in keep),
            source_names=self.source_names,
        )

    def validate(self, vocab_size: int) -> None:
        """Raise InvalidArgument unless this is a tree whose tokens are in the vocabulary."""
        size = len(self.token_ids)
        if not len(self.parents) == len(self.source_masks) == len(self.scores) == size:
            raise InvalidArgument(
                "tree", "token_ids, parents, source_masks and scores differ in length"
            )
        if any(not 0 <= parent <= node for node, parent in enumerate(self.parents)):
            raise InvalidArgument("tree.parents", "a parent must come before its child")
        if any(not 0 <= token_id < vocab_size for token_id in self.token_ids):
            raise InvalidArgument("tree.token_ids", f"a token id is outside 0 to {vocab_size - 1}")


def names_in(source_mask: int, source_names: Sequence[str]) -> list[str]:
    """The names whose bits are set."""
    return [name for bit, name in enumerate(source_names) if source_mask >> bit & 1]


def chain(token_ids: Sequence[int], source: str, score: float = 1.0) -> TokenTree:
    """A tree of width 1, all nodes from one source."""
    size = len(token_ids)
    return TokenTree(tuple(token_ids), tuple(range(size)), (1,) * size, (score,) * size, (source,))
