"""One round of asking: every source for every request, at most until the deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence

from dspark.candidates.merge import MergedTrees, room
from dspark.candidates.source_runner import SourceRunner
from dspark.candidates.sources.interface import DraftRequest, Trees
from dspark.token_tree import TokenTree

# Below a first guess that is right there are others, about as many again.
GAIN_OF_ROOM = 2.0


class DraftRound:
    """Collects the sources' trees for a batch of requests and merges them request by request."""

    def __init__(
        self,
        runners: Sequence[SourceRunner],
        requests: Sequence[DraftRequest],
        wanted: Sequence[tuple[str, ...]],
        vocab_size: int,
        deadline: float,
    ) -> None:
        """``wanted`` names, for each request, the sources to ask; empty means all."""
        names = tuple(runner.name for runner in runners)
        self._runners = runners
        self._requests = requests
        self._wanted = wanted
        self._deadline = deadline
        self._merged = [MergedTrees(names, vocab_size) for _ in requests]
        self._is_over = False
        self.costs_ns: dict[str, int] = {}

    async def run(self) -> list[TokenTree]:
        """One tree for each request, in order; ``costs_ns`` then has the time of each source.

        Cheap sources go first; a dear one is not asked for a request that they leave no room.
        """
        waiting: list[asyncio.Future[None]] = []
        # As it is now: one that turns out to be dear in this round has been asked.
        dear = [runner.is_dear for runner in self._runners]
        for is_dear in (False, True):
            for source, runner in enumerate(self._runners):
                if dear[source] != is_dear:
                    continue
                asked = self._asked(runner.name)
                if is_dear:
                    asked = [index for index in asked if self._has_room(index, runner)]
                if asked and time.monotonic() < self._deadline and runner.may_propose():
                    waiting += self._ask(source, asked)
        if waiting:
            await self._wait(waiting)
        return [self._best(index) for index in range(len(self._requests))]

    def _best(self, index: int) -> TokenTree:
        request = self._requests[index]
        return self._merged[index].best(request.max_nodes, request.max_depth, request.min_survival)

    def _has_room(self, index: int, runner: SourceRunner) -> bool:
        """Whether the time of the source may be worth it after what the others guessed."""
        request = self._requests[index]
        if not request.price:
            return True
        open_tokens = room(self._best(index), request.max_nodes, request.min_survival)
        return GAIN_OF_ROOM * open_tokens > request.price * runner.ms_per_request

    def _asked(self, name: str) -> list[int]:
        """Indexes of the requests that ask this source."""
        return [
            index
            for index, (request, wanted) in enumerate(
                zip(self._requests, self._wanted, strict=True)
            )
            if request.max_nodes and request.max_depth and (not wanted or name in wanted)
        ]

    def _ask(self, source: int, asked: list[int]) -> list[asyncio.Future[None]]:
        """Ask one source. What it gives at once is added, what it promises is returned."""
        runner = self._runners[source]
        requests = [self._requests[index] for index in asked]
        started = time.perf_counter_ns()
        try:
            answer = runner.source.propose(requests, self._deadline)
        except Exception as error:
            runner.failed("raised", error)
            return []
        if isinstance(answer, Awaitable):
            return [asyncio.ensure_future(self._receive(source, asked, answer, started))]
        self._add(source, asked, answer, started)
        return []

    async def _receive(
        self, source: int, asked: list[int], answer: Awaitable[Trees], started: int
    ) -> None:
        """Wait for one source; the round may be over, and this cancelled, before it answers."""
        runner = self._runners[source]
        try:
            trees = await answer
        except asyncio.CancelledError:
            if self._is_over:
                runner.failed("late")
            raise
        except Exception as error:
            runner.failed("raised", error)
        else:
            self._add(source, asked, trees, started)

    def _add(self, source: int, asked: list[int], trees: Trees, started: int) -> None:
        runner = self._runners[source]
        cost_ns = self.costs_ns[runner.name] = time.perf_counter_ns() - started
        try:
            if len(trees) != len(asked):
                raise ValueError(f"{len(trees)} trees for {len(asked)} requests")
            for index, tree in zip(asked, trees, strict=True):
                self._merged[index].add(source, tree)
        except Exception as error:
            runner.failed("garbage", error)
        else:
            runner.delivered(trees, cost_ns)

    async def _wait(self, waiting: Sequence[asyncio.Future[None]]) -> None:
        try:
            await asyncio.wait(waiting, timeout=max(0.0, self._deadline - time.monotonic()))
            self._is_over = True
        finally:
            for future in waiting:
                future.cancel()
