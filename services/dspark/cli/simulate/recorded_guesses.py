"""Guesses as a real run made them: each simulated text is one that was recorded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from dspark.cli.simulate.guesses import FIRST_WRONG, RIGHT, Place
from dspark.proposal import SourceRate
from dspark.token_tree import TokenTree


@dataclass(frozen=True)
class RecordedProposal:
    """A proposal after ``at`` generated tokens; ``right`` are the nodes on the text's own path."""

    at: int
    parents: tuple[int, ...]
    masks: tuple[int, ...]
    scores: tuple[float, ...]
    right: tuple[int, ...]

    def __post_init__(self) -> None:
        size = len(self.parents)
        if not size == len(self.masks) == len(self.scores):
            raise ValueError("parents, masks and scores must have one entry a node")
        if any(not 0 <= parent <= node for node, parent in enumerate(self.parents)):
            raise ValueError("parents must come before their children")
        if any(not 0 <= node < size for node in self.right):
            raise ValueError("right must be places of nodes")

    @cached_property
    def token_ids(self) -> tuple[int, ...]:
        right = set(self.right)
        return tuple(RIGHT if n in right else FIRST_WRONG + n for n in range(len(self.parents)))


@dataclass(frozen=True)
class RecordedText:
    """All proposals for one request, by where they began."""

    proposals: tuple[RecordedProposal, ...]

    @cached_property
    def places(self) -> list[int]:
        return [proposal.at for proposal in self.proposals]

    def at(self, num_generated_tokens: int) -> RecordedProposal:
        """The nearest one before; a text that goes on for longer begins anew."""
        place = num_generated_tokens % (self.places[-1] + 1)
        return self.proposals[max(bisect_right(self.places, place) - 1, 0)]


@dataclass(frozen=True)
class RecordedModel:
    """The texts of a run, and the sources that its masks count."""

    sources: tuple[str, ...]
    rates: tuple[SourceRate, ...]
    texts: tuple[RecordedText, ...]

    def __post_init__(self) -> None:
        if not any(text.proposals for text in self.texts):
            raise ValueError("texts must have at least one proposal")


class RecordedGuesses:
    """Requests take the texts in turn, so that each comes as often as the others."""

    def __init__(self, model: RecordedModel, seed: int) -> None:
        self.sources = model.sources
        self.rates = model.rates
        self._texts = model.texts
        self._seed = seed

    def tree(
        self, place: Place, sources: Collection[str], max_nodes: int, max_depth: int
    ) -> TokenTree:
        text = self._texts[(place.text + self._seed) % len(self._texts)]
        if not text.proposals:
            return TokenTree()
        found = text.at(place.num_generated_tokens)
        tree = TokenTree(found.token_ids, found.parents, found.masks, found.scores, self.sources)
        asked = sum(1 << bit for bit, name in enumerate(self.sources) if name in sources)
        kept: list[int] = []
        for node, (parent, mask) in enumerate(zip(tree.parents, tree.source_masks, strict=True)):
            is_reached = parent == 0 or parent - 1 in kept
            if is_reached and mask & asked and tree.depths[node] <= max_depth:
                kept.append(node)
        return tree if len(kept) == len(tree) <= max_nodes else tree.subtree(kept[:max_nodes])
