"""Keeps a request from asking a source that is never right."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from dspark.token_tree import TokenTree


class SourceMutes:
    """A request's sources: muted after ``mute_after`` rounds in a row without an accepted node.

    A muted source is tried again after ``mute_steps`` steps; one more bad round mutes it again.
    """

    def __init__(self, mute_after: int, mute_steps: int) -> None:
        self._mute_after = mute_after
        self._mute_steps = mute_steps
        self._bad_rounds: dict[str, int] = {}
        self._muted_until: dict[str, int] = {}

    def active(self, sources: Iterable[str], step: int) -> tuple[str, ...]:
        """The sources that may be asked in this step."""
        return tuple(name for name in sources if self._muted_until.get(name, 0) <= step)

    def update(self, tree: TokenTree, accepted_nodes: tuple[int, ...], step: int) -> list[str]:
        """Learn from one verified tree; returns the sources that this mutes."""
        muted: list[str] = []
        masks = tree.source_masks
        drafted = reduce(or_, masks, 0)
        accepted = reduce(or_, (masks[entry - 1] for entry in accepted_nodes), 0)
        for bit, name in enumerate(tree.source_names):
            if not drafted >> bit & 1:
                continue
            is_right = accepted >> bit & 1
            self._bad_rounds[name] = 0 if is_right else self._bad_rounds.get(name, 0) + 1
            if self._bad_rounds[name] >= self._mute_after:
                self._muted_until[name] = step + self._mute_steps
                muted.append(name)
        return muted
