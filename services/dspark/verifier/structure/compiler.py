"""Compiles grammars on a thread of their own, and keeps those that were used last."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution
from dspark.structured_output import StructuredOutput
from dspark.verifier.structure.matcher import Matcher

Compile = Callable[[StructuredOutput], Matcher]
"""Raises GrammarRefused."""


class StructureBooks:
    """Counted since the start."""

    def __init__(self) -> None:
        self.num_hits = 0
        self.num_misses = 0
        self.compile_s = Distribution(buckets.STEP_SECONDS)
        # nodes of trees that grammars forbid
        self.num_forbidden_nodes = 0


class Structures(Protocol):
    """Where the matchers of structured outputs come from."""

    books: StructureBooks

    @property
    def is_available(self) -> bool:
        """Whether there can be any."""
        ...

    @property
    def num_cached(self) -> int:
        """Grammars that are kept."""
        ...

    def start(self, output: StructuredOutput) -> Future[Matcher]:
        """A matcher at the beginning of the text, to be forked; or GrammarRefused."""
        ...

    def renew(self, output: StructuredOutput) -> Matcher:
        """A matcher that shares nothing with others, compiled at once; raises GrammarRefused."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Return when one more grammar is compiled, or after ``timeout_s`` seconds."""
        ...


class NoStructures:
    """For a model whose tokens are not known as bytes."""

    is_available = False
    num_cached = 0

    def __init__(self) -> None:
        self.books = StructureBooks()

    def start(self, output: StructuredOutput) -> Future[Matcher]:
        raise NotImplementedError("there are no structured outputs here")

    def renew(self, output: StructuredOutput) -> Matcher:
        raise NotImplementedError("there are no structured outputs here")

    def wait(self, timeout_s: float) -> None:
        pass


class GrammarCompiler:
    """Keeps at most ``max_cached`` grammars, of which each has a memory that LIMITS bound."""

    is_available = True

    def __init__(self, compile_one: Compile, max_cached: int) -> None:
        self.books = StructureBooks()
        self._compile_one = compile_one
        self._max_cached = max_cached
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammars")
        self._cached: OrderedDict[StructuredOutput, Future[Matcher]] = OrderedDict()

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    def start(self, output: StructuredOutput) -> Future[Matcher]:
        known = self._cached.get(output)
        if known is not None:
            self.books.num_hits += 1
            self._cached.move_to_end(output)
            return known
        self.books.num_misses += 1
        started = self._executor.submit(self._compile, output)
        self._cached[output] = started
        while len(self._cached) > self._max_cached:
            self._cached.popitem(last=False)
        return started

    def renew(self, output: StructuredOutput) -> Matcher:
        self._cached.pop(output, None)
        return self._compile(output)

    def wait(self, timeout_s: float) -> None:
        unfinished = [future for future in self._cached.values() if not future.done()]
        if unfinished:
            wait(unfinished, timeout_s, FIRST_COMPLETED)

    def _compile(self, output: StructuredOutput) -> Matcher:
        started = time.perf_counter()
        try:
            return self._compile_one(output)
        finally:
            self.books.compile_s.observe(time.perf_counter() - started)
