"""Drafters that follow a script: each shows the rest of the system one acceptance pattern.

A script makes a token tree from what plain decoding would really generate next (``Draft.truth``),
so a test that knows the plain output can ask for any pattern. ``SCRIPTS`` has them by name;
``ScriptedSource`` plays one as a candidate source, ``SlowSource`` and ``CrashingSource`` misbehave
in other ways.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.token_tree import TokenTree, chain

Truth = Callable[[Sequence[int]], Sequence[int]]
"""From all token ids of a request so far to those that plain decoding generates next."""


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
    return chain(draft.right, "oracle")


def adversary(draft: Draft) -> TokenTree:
    """Always wrong, at every depth."""
    return chain([draft.wrong(token_id) for token_id in draft.right], "adversary")


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
    return _tree(token_ids, parents, "random")


def late_wrong(position: int) -> Script:
    """Right up to the ``position``-th token (from 1), which is wrong; right again after it."""

    def script(draft: Draft) -> TokenTree:
        token_ids = list(draft.right)
        if len(token_ids) >= position:
            token_ids[position - 1] = draft.wrong(token_ids[position - 1])
        return chain(token_ids, "late_wrong")

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
    return _tree(token_ids, parents, "branchy")


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
        _tree([outside, right], [0, 1], "garbage"),
        _tree([right, beyond], [0, 1], "garbage"),
        _tree([right, right], [0, 7], "garbage"),
        _tree([right, right], [2, 1], "garbage"),
        _tree([right], [1], "garbage"),
        TokenTree((right, right, right), (0,), (1,), (0.5, 0.5), ("garbage",)),
    )
    return trees[draft.round_index % len(trees)]


def _tree(token_ids: Sequence[int], parents: Sequence[int], source: str) -> TokenTree:
    size = len(token_ids)
    return TokenTree(tuple(token_ids), tuple(parents), (1,) * size, (0.5,) * size, (source,))


SCRIPTS: dict[str, Script] = {
    "oracle": oracle,
    "adversary": adversary,
    "alternating": alternating,
    "random": random_tree,
    "late_wrong": late_wrong(3),
    "branchy": branchy,
    "empty": empty,
    "garbage": garbage,
}


class ScriptedSource(CandidateSource):
    """Plays a script for every request."""

    def __init__(self, name: str, script: Script, truth: Truth, vocab_size: int) -> None:
        self.name = name
        self._script = script
        self._truth = truth
        self._vocab_size = vocab_size
        self._rounds: Counter[str] = Counter()

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> Sequence[TokenTree] | Awaitable[Sequence[TokenTree]]:
        return [self._play(request) for request in requests]

    def _play(self, request: DraftRequest) -> TokenTree:
        token_ids = tuple(request.sequence.token_ids)
        draft = Draft(
            token_ids,
            tuple(self._truth(token_ids)),
            request.max_nodes,
            request.max_depth,
            self._vocab_size,
            self._rounds[request.sequence.request_id],
        )
        self._rounds[request.sequence.request_id] += 1
        return self._script(draft)


class SlowSource(ScriptedSource):
    """Plays its script only after a delay."""

    def __init__(
        self, name: str, script: Script, truth: Truth, vocab_size: int, delay_s: float
    ) -> None:
        super().__init__(name, script, truth, vocab_size)
        self._delay_s = delay_s

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> Awaitable[Sequence[TokenTree]]:
        return self._propose_late(requests)

    async def _propose_late(self, requests: Sequence[DraftRequest]) -> Sequence[TokenTree]:
        await asyncio.sleep(self._delay_s)
        return [self._play(request) for request in requests]


class CrashingSource(CandidateSource):
    """Raises from every call, except for the first ``healthy_calls`` of ``propose``."""

    def __init__(self, name: str = "crash", healthy_calls: int = 0) -> None:
        self.name = name
        self.num_proposals = 0
        self._healthy_calls = healthy_calls

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        self.num_proposals += 1
        if self.num_proposals > self._healthy_calls:
            raise RuntimeError("crashed while proposing")
        return [TokenTree() for _ in requests]

    def commit(self, sequence: object, token_ids: Sequence[int]) -> None:
        raise RuntimeError("crashed while committing")

    def observe(self, successors: object) -> None:
        raise RuntimeError("crashed while observing")

    def release(self, sequence: object, completed: bool) -> None:
        raise RuntimeError("crashed while releasing")
