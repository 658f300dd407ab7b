"""Drops nodes by what the head says of them after some layers (ProPD, arXiv:2402.13485).

After the cut's layer the state of each row with children goes through the final norm and, for its
children and some likely tokens only, the head. A child of which that leaves little hope drops out,
and its descendants with it. How little is learnt from audited passes: see judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.step import WorkResult
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.pruning.cut import Cut, CuttingRunner, Rows
from dspark.verifier.pruning.forest import Forest, forest_of
from dspark.verifier.pruning.judge import Judge
from dspark.verifier.pruning.likely_tokens import LikelyTokens
from dspark.verifier.pruning.occasions import Occasion, Occasions
from dspark.verifier.pruning.pruner import PrunedPass, PruningBooks
from dspark.verifier.scheduled_work import ScheduledWork

Clock = Callable[[], float]


class RestrictedLogits:
    """A pruner; each layer behind which it may cut has a judge of its own."""

    def __init__(
        self,
        runner: CuttingRunner,
        occasions: Occasions,
        judges: Mapping[int, Judge],
        clock: Clock = time.perf_counter,
    ) -> None:
        self.books = PruningBooks()
        self._runner = runner
        self._occasions = occasions
        self._judges = judges
        self._clock = clock
        self._likely = LikelyTokens()
        self._pass: _CutPass | None = None

    def plan(self, entries: Sequence[ScheduledWork]) -> PrunedPass | None:
        self._pass = None
        num_nodes = sum(len(entry.tree) for entry in entries)
        if not num_nodes:
            return None
        ready = [layer for layer, judge in self._judges.items() if judge.is_ready]
        num_rows = sum(entry.num_rows for entry in entries)
        occasion = self._occasions.next(num_rows, num_nodes, ready)
        if occasion is not None:
            self._pass = _CutPass(
                forest_of(entries),
                [len(entry.tree) for entry in entries],
                occasion,
                runner=self._runner,
                occasions=self._occasions,
                judge=self._judges[occasion.layer],
                likely=self._likely,
                clock=self._clock,
            )
        return self._pass

    def learn(self, entries: Sequence[ScheduledWork], results: Sequence[WorkResult]) -> None:
        done, self._pass = self._pass, None
        for result in results:
            self._likely.note(result.committed_token_ids)
        if done is None or not done.has_run:
            return
        if not done.occasion.is_audit:
            self.books.num_pruned_rows += done.num_dropped
            return
        paths = accepted_paths(entries, results)
        self.books.num_audits += 1
        if done.is_ready:
            self.books.num_audited_tokens += sum(map(len, paths))
            self.books.num_lost_tokens += sum(num_lost(path, done.would_stay) for path in paths)
        done.learn(stakes_of(paths, len(done.forest)))


class _CutPass:
    """One pass: ``would_stay`` [num_nodes] says which nodes are not hopeless, audit or not."""

    def __init__(
        self,
        forest: Forest,
        tree_sizes: Sequence[int],
        occasion: Occasion,
        *,
        runner: CuttingRunner,
        occasions: Occasions,
        judge: Judge,
        likely: LikelyTokens,
        clock: Clock,
    ) -> None:
        self.forest = forest
        self.occasion = occasion
        self._tree_sizes = tree_sizes
        self._runner = runner
        self._occasions = occasions
        self._judge = judge
        # What a judge says before it is ready tells nothing of what pruning drops and loses.
        self.is_ready = judge.is_ready
        self._token_ids = likely.together_with(forest.token_ids)
        self._clock = clock
        self.would_stay = np.ones(len(forest), dtype=np.bool_)
        self._stays = self.would_stay
        self.has_run = False

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        rows = np.array([parent.row for parent in self.forest.parents], dtype=np.int64)
        cut = Cut(self.occasion.layer, rows, self._token_ids, self._choose)
        logits = self._runner.forward_cut(batch, cut)
        self.has_run = True
        return logits

    def _choose(self, logits: NDArray[np.float32]) -> Rows:
        started = self._clock()
        forest, layer = self.forest, self.occasion.layer
        hopeless = self._judge.hopeless(forest, self._token_ids, logits)
        self.would_stay = forest.closed(hopeless)
        num_dropped = len(forest) - int(self.would_stay.sum())
        num_kept = forest.num_rows - num_dropped
        if not self.occasion.is_audit and self._occasions.is_worth(
            layer, forest.num_rows, num_kept
        ):
            self._stays = self.would_stay
        kept = forest.rows_without(self._stays)
        if self.is_ready:
            choosing_ms = (self._clock() - started) * 1e3
            self._occasions.note(layer, len(forest), num_dropped, choosing_ms)
        return kept

    @property
    def num_dropped(self) -> int:
        return len(self.forest) - int(self._stays.sum())

    def kept_nodes(self) -> list[list[int]]:
        ends = np.cumsum(self._tree_sizes)[:-1]
        return [np.flatnonzero(stays).tolist() for stays in np.split(self._stays, ends)]

    def learn(self, stakes: NDArray[np.int64]) -> None:
        self._judge.learn(self.forest, stakes)


def accepted_paths(
    entries: Sequence[ScheduledWork], results: Sequence[WorkResult]
) -> list[list[int]]:
    """The accepted nodes of each entry, numbered as in the forest of the entries."""
    paths: list[list[int]] = []
    first = 0
    for entry, result in zip(entries, results, strict=True):
        places = {node + 1: first + place for place, node in enumerate(entry.kept_nodes)}
        paths.append([places[node] for node in result.accepted_nodes])
        first += len(entry.tree)
    return paths


def num_lost(path: Sequence[int], would_stay: NDArray[np.bool_]) -> int:
    """How many tokens of an accepted path would have been lost with its first hopeless node."""
    lost = (place for place, node in enumerate(path) if not would_stay[node])
    return len(path) - next(lost, len(path))


def stakes_of(paths: Sequence[Sequence[int]], num_nodes: int) -> NDArray[np.int64]:
    """[num_nodes] of each accepted node, how many tokens hang on it, itself included."""
    stakes = np.zeros(num_nodes, dtype=np.int64)
    for path in paths:
        for place, node in enumerate(path):
            stakes[node] = len(path) - place
    return stakes
