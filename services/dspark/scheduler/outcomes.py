"""What becomes of proposed trees, told by the tokens that are committed after them.

A node is tried where the token before it was committed, and accepted if the next one is its own.
For that nobody needs to have verified it: so candidates that are not bought teach as much as those
that are, and what is learnt does not depend on what was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dspark.token_tree import TokenTree

# Trees of one request whose end is open; older ones are taken as they are.
MAX_OPEN = 16


class Tried(NamedTuple):
    """A node whose parent was committed, and whether it was, too."""

    node: int
    accepted: bool


@dataclass(slots=True)
class Outcome:
    """A tree and how far committed tokens have followed it: ``tried`` goes from the anchor down.

    ``temperature_bin`` says how freely they are drawn.
    """

    tree: TokenTree
    temperature_bin: int = 0
    tried: list[Tried] = field(default_factory=list)
    # 0 for the anchor, i + 1 for node i; None once no node may follow
    _entry: int | None = 0

    @property
    def is_open(self) -> bool:
        return self._entry is not None

    @property
    def path(self) -> list[int]:
        """The accepted nodes, from the anchor down."""
        return [node for node, accepted in self.tried if accepted]

    def follow(self, token_ids: Sequence[int]) -> None:
        """Take in the next committed tokens."""
        for token_id in token_ids:
            if self._entry is None:
                return
            children = self.tree.children[self._entry]
            found = children.get(token_id)
            self.tried += [Tried(entry - 1, entry == found) for entry in children.values()]
            self._entry = found if found is not None and self.tree.children[found] else None

    def close(self) -> None:
        """No more tokens: it ends as it is."""
        self._entry = None


class OpenOutcomes:
    """The open outcomes of one request, oldest first."""

    def __init__(self, temperature_bin: int = 0) -> None:
        self._temperature_bin = temperature_bin
        self._open: list[Outcome] = []

    def offer(self, tree: TokenTree) -> Outcome:
        """A tree that grows from the last known token."""
        outcome = Outcome(tree, self._temperature_bin)
        self._open.append(outcome)
        return outcome

    def follow(self, token_ids: Sequence[int]) -> list[Outcome]:
        """Take in committed tokens; returns what is over by that."""
        for outcome in self._open:
            outcome.follow(token_ids)
        over = [outcome for outcome in self._open if not outcome.is_open]
        self._open = [outcome for outcome in self._open if outcome.is_open]
        num_excess = max(0, len(self._open) - MAX_OPEN)
        for outcome in self._open[:num_excess]:
            outcome.close()
        over += self._open[:num_excess]
        del self._open[:num_excess]
        return over

    def close(self) -> list[Outcome]:
        """No more tokens: what is open ends as it is."""
        over, self._open = self._open, []
        for outcome in over:
            outcome.close()
        return over
