"""Drafters whose candidates are right or wrong on purpose (trees for known continuations)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from dspark.token_tree import TokenTree, chain

# Proposes a tree for a sequence of these tokens.
Drafter = Callable[[list[int]], TokenTree]
SOURCE = "scripted"


def tree_of(token_ids: Sequence[int], parents: Sequence[int]) -> TokenTree:
    """A tree whose nodes all come from one source."""
    size = len(token_ids)
    return TokenTree(tuple(token_ids), tuple(parents), (1,) * size, (0.5,) * size, (SOURCE,))


class KnownText:
    """Makes drafters for one request whose whole text (prompt and output) is known beforehand."""

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

    def oracle(self, token_ids: list[int]) -> TokenTree:
        """Always right."""
        return chain(self.following(token_ids), SOURCE)

    def adversary(self, token_ids: list[int]) -> TokenTree:
        """Always wrong from the first node."""
        return chain([self.wrong(t) for t in self.following(token_ids)], SOURCE)

    def late_wrong(self, token_ids: list[int]) -> TokenTree:
        """Right but for the last node."""
        right = self.following(token_ids)
        return chain([*right[:-1], self.wrong(right[-1])], SOURCE)

    def alternating(self, token_ids: list[int]) -> TokenTree:
        """Right and wrong in turn."""
        return self.oracle(token_ids) if len(token_ids) % 2 else self.adversary(token_ids)

    def branchy(self, token_ids: list[int]) -> TokenTree:
        """The right path is the third child at every level."""
        tokens: list[int] = []
        parents: list[int] = []
        parent = 0
        for right in self.following(token_ids):
            tokens += [self.wrong(right), self.wrong(self.wrong(right)), right]
            parents += [parent] * 3
            parent = len(tokens)
        return tree_of(tokens, parents)

    def duplicates(self, token_ids: list[int]) -> TokenTree:
        """Every level has the right token twice; the second copy has the children."""
        tokens: list[int] = []
        parents: list[int] = []
        parent = 0
        for right in self.following(token_ids):
            tokens += [right, right]
            parents += [parent] * 2
            parent = len(tokens)
        return tree_of(tokens, parents)

    def random(self, token_ids: list[int]) -> TokenTree:
        """A random tree in which about half of the nodes carry the right token."""
        generator = random.Random(repr(token_ids))
        right, depths = self.following(token_ids), [0]
        tokens: list[int] = []
        parents: list[int] = []
        for node in range(generator.randrange(3 * self.width)):
            parent = generator.randint(0, node)
            depth = depths[parent] + 1
            is_right = depth <= self.width and generator.random() < 0.5
            tokens.append(right[depth - 1] if is_right else generator.randrange(self.vocab_size))
            parents.append(parent)
            depths.append(depth)
        return tree_of(tokens, parents)

    def empty(self, token_ids: list[int]) -> TokenTree:
        """Nothing."""
        return TokenTree()

    def garbage(self, token_ids: list[int]) -> TokenTree:
        """Ids outside the vocabulary, parents after their children, lists that differ in length."""
        kind = len(token_ids) % 3
        right = self.following(token_ids)
        if kind == 0:
            return tree_of([*right, self.vocab_size], range(len(right) + 1))
        if kind == 1:
            return tree_of(right, [5] * len(right))
        return TokenTree(tuple(right), (0,), (1,), (0.5,), (SOURCE,))

    def all(self) -> dict[str, Drafter]:
        """Every drafter by name."""
        return {
            "oracle": self.oracle,
            "adversary": self.adversary,
            "late_wrong": self.late_wrong,
            "alternating": self.alternating,
            "branchy": self.branchy,
            "duplicates": self.duplicates,
            "random": self.random,
            "empty": self.empty,
            "garbage": self.garbage,
        }


NAMES = tuple(KnownText([], 2).all())
