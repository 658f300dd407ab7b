"""Drafts token trees with a causal model, as far as the time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from dspark.candidates.draft_model.cache_table import CacheTable
from dspark.candidates.draft_model.causal_model import CausalModel, Floats
from dspark.candidates.draft_model.draft_batch import DraftBatch, TreeNode
from dspark.candidates.draft_model.level_growth import Children, LevelGrowth
from dspark.candidates.draft_model.pass_times import PassTimes
from dspark.candidates.draft_model.sequence_cache import SequenceCache
from dspark.candidates.perturbed_top import DrawNoise, top_scores
from dspark.token_tree import TokenTree

# Nodes expanded in a pass, children looked at below each, and levels.
WIDTH = 8
CHILDREN = 10
MAX_DEPTH = 10
# A pass that can add less than this many expected tokens is not worth its time.
MIN_GAIN = 0.15
# A sequence with more new tokens than this is not drafted for, but computed piece by piece.
MAX_NEW = 32
_PIECES = (256, 128, 64, MAX_NEW)
_TREE_COLUMNS = WIDTH * (MAX_DEPTH - 1)
# Time that packing up the trees takes, and how much longer than usual a pass may take.
_RESERVE_S = 0.001
_PATIENCE = 1.1


@dataclass(frozen=True, slots=True)
class DraftWish:
    """A request as it was when it was asked for; ``sequence`` identifies it."""

    sequence: Hashable
    token_ids: tuple[int, ...]
    max_nodes: int
    max_depth: int
    temperature: float = 0.0
    seed: int = 0
    price: float = 0.0
    """Tokens that a millisecond is worth; 0 where that is not known."""


@dataclass(slots=True)
class _Opened:
    """A wish and what is computed of its sequence."""

    wish: DraftWish
    cache: SequenceCache

    @property
    def new(self) -> tuple[int, ...]:
        """Tokens that are not computed yet; the anchor is always one of them."""
        return self.wish.token_ids[self.cache.end :]


class TreeDrafter:
    """Keeps the model's KV of each sequence and grows trees for batches of requests.

    Only ids below ``num_ids`` are proposed. A sequence with ids that the model does not have gets
    no tree, as does one whose prompt is not computed yet; a piece of that is in each round.
    """

    def __init__(
        self,
        model: CausalModel,
        *,
        num_ids: int,
        error_scale: float,
        max_kv_tokens: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._clock = clock
        # Ids ascend, so those that may be proposed come first.
        self._token_ids = model.token_ids[model.token_ids < num_ids]
        self._noise = DrawNoise(self._token_ids)
        self._error_scale = error_scale
        self._window = min(model.max_context, max(1, max_kv_tokens - MAX_NEW - _TREE_COLUMNS))
        self.caches = CacheTable(model.num_layers, max_kv_tokens)
        self.times = PassTimes()

    def forget(self, sequence: Hashable) -> None:
        self.caches.forget(sequence)

    def draft(self, wishes: Sequence[DraftWish], deadline: float) -> list[TokenTree]:
        """One tree a wish, by ``deadline`` of the clock if passes take as long as before."""
        try:
            return self._draft(wishes, deadline)
        except BaseException:
            # What a pass that failed left in the caches is anybody's guess.
            for wish in wishes:
                self.forget(wish.sequence)
            raise

    def _draft(self, wishes: Sequence[DraftWish], deadline: float) -> list[TokenTree]:
        trees = [TokenTree()] * len(wishes)
        opened = {place: self._open(wish) for place, wish in enumerate(wishes) if self._fits(wish)}
        keep = {each.wish.sequence for each in opened.values()}
        has_worked = self._compute_prompts(list(opened.values()), keep, deadline)
        ready = [place for place, each in opened.items() if len(each.new) <= MAX_NEW]
        # Those that were left out last time have more new tokens than others.
        ready.sort(key=lambda place: -len(opened[place].new))
        while ready and not self._may_start([opened[place] for place in ready], deadline):
            ready = ready[: len(ready) // 2]
        if ready:
            grown = self._grow([opened[place] for place in ready], deadline)
            for place, tree in zip(ready, grown, strict=True):
                trees[place] = tree
        elif opened and not has_worked:
            self.times.refused()
        return trees

    def _fits(self, wish: DraftWish) -> bool:
        return (
            wish.max_nodes > 0
            and wish.max_depth > 0
            and len(wish.token_ids) > 0
            and max(wish.token_ids) < self._model.num_ids
        )

    def _open(self, wish: DraftWish) -> _Opened:
        """Where a sequence outgrows the model's context, its last half is computed anew."""
        cache = self.caches.open(wish.sequence)
        cache.commit(wish.token_ids)
        length = len(wish.token_ids)
        if length - cache.start + MAX_DEPTH > self._window:
            start = length - max(1, self._window // 2)
            if start > cache.start:
                cache = self.caches.restart(wish.sequence, start)
        return _Opened(wish, cache)

    def _compute_prompts(
        self, opened: Sequence[_Opened], keep: Collection[Hashable], deadline: float
    ) -> bool:
        """Pieces of long texts, in half of the time if others wait for trees; whether any were."""
        waiting = [each for each in opened if len(each.new) > MAX_NEW]
        until = deadline
        if len(waiting) < len(opened):
            now = self._clock()
            until = now + (deadline - now) / 2
        has_worked = False
        for each in waiting:
            while len(each.new) > MAX_NEW:
                size = self._piece(len(each.new), until)
                if not size or not self.caches.make_room(size, keep):
                    break
                batch = DraftBatch(self._model, [each.cache], size)
                self._timed(batch, [each.new[:size]])
                batch.finish()
                has_worked = True
        return has_worked

    def _piece(self, num_new: int, until: float) -> int:
        """The largest piece that there is time for; 0 if there is none."""
        pieces = (size for size in _PIECES if size < num_new and self._has_time(size, until))
        return next(pieces, 0)

    def _may_start(self, opened: Sequence[_Opened], deadline: float) -> bool:
        longest = max(len(each.new) for each in opened)
        room = len(opened) * (longest + _TREE_COLUMNS)
        # Side by side, each takes as much as the longest.
        padded = room + len(opened) * max(each.cache.num_tokens for each in opened)
        keep = {each.wish.sequence for each in opened}
        fits = padded <= self.caches.max_tokens and self.caches.make_room(room, keep)
        return fits and self._has_time(len(opened) * longest, deadline)

    def _has_time(self, num_rows: int, until: float) -> bool:
        needed = _PATIENCE * self.times.estimate(num_rows) + _RESERVE_S
        return self._clock() + needed <= until

    def _timed(self, batch: DraftBatch, new: Sequence[Sequence[int]]) -> Floats:
        started = self._clock()
        logits = batch.extend(new)
        self.times.add(len(new) * max(map(len, new)), self._clock() - started)
        return logits

    def _grow(self, opened: Sequence[_Opened], deadline: float) -> list[TokenTree]:
        new = [each.new for each in opened]
        growths = [self._growth(each) for each in opened]
        columns = max(map(len, new)) + _TREE_COLUMNS
        batch = DraftBatch(self._model, [each.cache for each in opened], columns)
        after = self._timed(batch, new)
        rows = [logits[None] for logits in after]
        while True:
            for each, growth, logits in zip(opened, growths, rows, strict=True):
                self._expand(each.wish, growth, logits)
            levels = [_level(growth) for growth in growths]
            num_rows = len(levels) * max(map(len, levels))
            if not num_rows or not self._has_time(num_rows, deadline):
                break
            if not self._is_worth(num_rows, opened, growths):
                break
            started = self._clock()
            rows = batch.descend(levels)
            self.times.add(num_rows, self._clock() - started)
        batch.finish()
        return [growth.tree("draft") for growth in growths]

    def _is_worth(
        self, num_rows: int, opened: Sequence[_Opened], growths: Sequence[LevelGrowth]
    ) -> bool:
        """Whether another level may bring more than its pass is worth."""
        price = max(each.wish.price for each in opened)
        gain = sum(growth.possible_gain for growth in growths)
        return gain >= price * self.times.estimate(num_rows) * 1e3

    def _growth(self, opened: _Opened) -> LevelGrowth:
        room = self._window - (len(opened.wish.token_ids) - opened.cache.start)
        depth = min(opened.wish.max_depth, MAX_DEPTH, max(1, room))
        return LevelGrowth(opened.wish.max_nodes, depth, WIDTH)

    def _expand(self, wish: DraftWish, growth: LevelGrowth, logits: Floats) -> None:
        """``logits`` [nodes, V'] of the frontier, or of none where it was not computed."""
        if len(logits):
            position = len(wish.token_ids) + growth.depth
            growth.expand([self._children(wish, row, position) for row in logits])

    def _children(self, wish: DraftWish, logits: Floats, position: int) -> Children:
        known = logits[: len(self._token_ids)]
        values = self._noise.perturbed(known, wish.temperature, wish.seed, position)
        places, scores = top_scores(values, self._error_scale, min(wish.max_nodes, CHILDREN))
        return self._token_ids[places].tolist(), scores.tolist()


def _level(growth: LevelGrowth) -> list[TreeNode]:
    """The nodes to compute next, if that is worth a pass."""
    if growth.possible_gain < MIN_GAIN:
        return []
    return [
        TreeNode(entry, growth.parents[entry - 1], growth.token_ids[entry - 1], growth.depth)
        for entry in growth.frontier
    ]


def check_trees(model: CausalModel) -> None:
    """Raises ValueError for a model that computes a path in a tree unlike the same path alone.

    Models do that which do not keep to a mask that is given to them, or keep other state than K/V.
    """
    ids = [index % model.num_ids for index in range(1, 6)]
    fork = DraftBatch(model, [SequenceCache(model.num_layers)], 6)
    fork.extend([ids[:2]])
    fork.descend([[TreeNode(1, 0, ids[2], 1), TreeNode(2, 0, ids[3], 1)]])
    (in_tree,) = fork.descend([[TreeNode(3, 2, ids[4], 2), TreeNode(4, 1, ids[4], 2)]])
    alone = DraftBatch(model, [SequenceCache(model.num_layers)], 4)
    (expected,) = alone.extend([[*ids[:2], ids[3], ids[4]]])
    tolerance = 0.1 * float(np.std(expected)) + 1e-3
    if not np.allclose(in_tree[0], expected, rtol=0.0, atol=tolerance):
        raise ValueError("the draft model cannot compute trees")
