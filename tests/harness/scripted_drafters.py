"""Candidates that follow a script: each shows the rest of the system one acceptance pattern.

A script makes a token tree from what plain decoding would really generate next (``Draft.truth``),
so a test that knows the plain output can ask for any pattern. ``SCRIPTS`` has them by name;
``KnownText`` plays them for one request, ``scripted_sources`` as candidate sources.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dspark.token_tree import TokenTree, chain

# Proposes a tree for a sequence of these tokens.
Drafter = Callable[[list[int]], TokenTree]
SOURCE = "scripted"


def tree_of(token_ids: Sequence[int], parents: Sequence[int]) -> TokenTree:
    """A tree whose nodes all come from one source."""
    size = len(token_ids)
    return TokenTree(tuple(token_ids), tuple(parents), (1,) * size, (0.5,) * size, (SOURCE,))


@dataclass(frozen=True)
class Draft:
    """What a script may know: the real next tokens, the size wanted, and how often it was asked
    before.
    """

    token_ids: tuple[int, ...]
    truth: tuple[int, ...]
    max_nodes: int
    max_depth: int
    vocab_size: int
    round_index: int = 0

    @property
    def right(self) -> tuple[int, ...]:
        """The real next tokens, as many as one path may have."""
        return self.truth[: min(self.max_nodes, self.max_depth)]

    def wrong(self, token_id: int, offset: int = 1) -> int:
        """A token that is not ``token_id``; other offsets below vocab_size give other ones."""
        return (token_id + offset) % self.vocab_size


Script = Callable[[Draft], TokenTree]


def oracle(draft: Draft) -> TokenTree:
    """Always right."""
    return chain(draft.right, SOURCE)


def adversary(draft: Draft) -> TokenTree:
    """Always wrong, at every depth."""
    return chain([draft.wrong(token_id) for token_id in draft.right], SOURCE)


def alternating(draft: Draft) -> TokenTree:
    """Right in every second round, else wrong."""
    return oracle(draft) if draft.round_index % 2 == 0 else adversary(draft)


def random_tree(draft: Draft) -> TokenTree:
    """A tree of any shape whose tokens are often right, the same one for the same text."""
    generator = random.Random(f"{draft.round_index} {draft.token_ids}")
    token_ids: list[int] = []
    parents: list[int] = []
    depths: list[int] = [0]
    for node in range(generator.randint(0, draft.max_nodes)):
        parent = generator.randint(0, node)
        if depths[parent] >= min(draft.max_depth, len(draft.truth)):
            parent = 0
        depths.append(depths[parent] + 1)
        right = draft.truth[depths[-1] - 1] if draft.truth else 0
        is_right = generator.random() < 0.6
        token_ids.append(right if is_right else generator.randrange(draft.vocab_size))
        parents.append(parent)
    return tree_of(token_ids, parents)


def late_wrong(position: int) -> Script:
    """Right up to the ``position``-th token (from 1), which is wrong; right again after it."""

    def script(draft: Draft) -> TokenTree:
        token_ids = list(draft.right)
        if len(token_ids) >= position:
            token_ids[position - 1] = draft.wrong(token_ids[position - 1])
        return chain(token_ids, SOURCE)

    return script


def branchy(draft: Draft) -> TokenTree:
    """At every level two wrong children come before the right one."""
    token_ids: list[int] = []
    parents: list[int] = []
    entry = 0
    for right in draft.truth[: min(draft.max_nodes // 3, draft.max_depth)]:
        token_ids += [draft.wrong(right, 1), draft.wrong(right, 2), right]
        parents += [entry] * 3
        entry = len(token_ids)
    return tree_of(token_ids, parents)


def duplicates(draft: Draft) -> TokenTree:
    """Every level has the right token twice; the second copy has the children."""
    token_ids: list[int] = []
    parents: list[int] = []
    entry = 0
    for right in draft.truth[: min(draft.max_nodes // 2, draft.max_depth)]:
        token_ids += [right, right]
        parents += [entry] * 2
        entry = len(token_ids)
    return tree_of(token_ids, parents)


def empty(draft: Draft) -> TokenTree:
    """No guess."""
    return TokenTree()


def garbage(draft: Draft) -> TokenTree:
    """No valid tree: token ids outside the vocabulary, parents that do not come before, uneven
    lists.
    """
    right = draft.right[0] if draft.right else 0
    outside, beyond = draft.vocab_size, draft.vocab_size + 2**20
    trees = (
        tree_of([outside, right], [0, 1]),
        tree_of([right, beyond], [0, 1]),
        tree_of([right, right], [0, 7]),
        tree_of([right, right], [2, 1]),
        tree_of([right], [1]),
        TokenTree((right, right, right), (0,), (1,), (0.5, 0.5), (SOURCE,)),
    )
    return trees[draft.round_index % len(trees)]


SCRIPTS: dict[str, Script] = {
    "oracle": oracle,
    "adversary": adversary,
    "alternating": alternating,
    "random": random_tree,
    "late_wrong": late_wrong(3),
    "branchy": branchy,
    "duplicates": duplicates,
    "empty": empty,
    "garbage": garbage,
}
NAMES = tuple(SCRIPTS)


class KnownText:
    """Makes drafters for one request whose whole text (prompt and output) is known beforehand.

    The script ``name`` is the drafter ``KnownText(...).name``.
    """

    def __init__(self, text: Sequence[int], vocab_size: int, width: int = 4) -> None:
        self.text = list(text)
        self.vocab_size = vocab_size
        self.width = width

    def following(self, token_ids: Sequence[int]) -> list[int]:
        """The next tokens, padded past the end of the text."""
        start = len(token_ids)
        return (self.text[start:] + [0] * self.width)[: self.width]

    def wrong(self, token_id: int) -> int:
        return (token_id + 1) % self.vocab_size

    def all(self) -> dict[str, Drafter]:
        """Every drafter by name."""
        return {name: getattr(self, name) for name in SCRIPTS}

    def __getattr__(self, name: str) -> Drafter:
        if name not in SCRIPTS:
            raise AttributeError(name)
        return lambda token_ids: SCRIPTS[name](self._draft(token_ids))

    def _draft(self, token_ids: Sequence[int]) -> Draft:
        return Draft(
            token_ids=tuple(token_ids),
            truth=tuple(self.following(token_ids)),
            max_nodes=3 * self.width,
            max_depth=self.width,
            vocab_size=self.vocab_size,
            round_index=len(token_ids),
        )
