"""Keeps a request from asking a source that is never right."""

from __future__ import annotations

from collections.abc import Iterable

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

    def update(self, tree: TokenTree, accepted_nodes: tuple[int, ...], step: int) -> None:
        """Learn from one verified tree."""
        drafted = {name for node in range(len(tree)) for name in tree.sources_of(node)}
        accepted = {name for entry in accepted_nodes for name in tree.sources_of(entry - 1)}
        for name in drafted:
            self._bad_rounds[name] = 0 if name in accepted else self._bad_rounds.get(name, 0) + 1
            if self._bad_rounds[name] >= self._mute_after:
                self._muted_until[name] = step + self._mute_steps
