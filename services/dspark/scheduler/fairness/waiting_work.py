"""How many tokens wait, and how many of them are computed before a newcomer's first."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from dspark.request_class import RequestClass
from dspark.scheduler.request import Share


class Work(NamedTuple):
    """Tokens to compute before a request's first token, and expected ones to generate."""

    prompt: float = 0.0
    output: float = 0.0

    @property
    def total(self) -> float:
        return self.prompt + self.output

    def plus(self, other: Work) -> Work:
        return Work(self.prompt + other.prompt, self.output + other.output)

    def minus(self, other: Work) -> Work:
        return Work(self.prompt - other.prompt, self.output - other.output)

    def at_most(self, total: float) -> Work:
        """The same mix, of so many tokens at most."""
        part = min(1.0, total / self.total) if self.total > 0 else 1.0
        return Work(self.prompt * part, self.output * part)


class Ahead(NamedTuple):
    """What goes before a request: its own tenant's, and that of all others."""

    own: Work
    others: Work


class WaitingWork:
    """Sums over the waiting requests by class and tenant."""

    def __init__(self, batch_share: float) -> None:
        self._batch_rate = batch_share / (1 - batch_share)
        self._sums: defaultdict[Share, Work] = defaultdict(Work)
        self._counts: defaultdict[Share, int] = defaultdict(int)

    def add(self, share: Share, work: Work) -> None:
        self._sums[share] = self._sums[share].plus(work)
        self._counts[share] += 1

    def remove(self, share: Share, work: Work) -> None:
        self._sums[share] = self._sums[share].minus(work)
        self._counts[share] -= 1
        if not self._counts[share]:
            del self._sums[share], self._counts[share]

    def longest_besides(self, share: Share) -> Share | None:
        """Whose queue is the longest, if that of ``share`` is at least two requests shorter."""
        longest = max(self._counts, key=lambda each: self._counts[each], default=share)
        is_longer = self._counts[longest] > self._counts.get(share, 0) + 1
        return longest if is_longer else None

    def ahead(self, share: Share, work: Work) -> Ahead:
        """What goes before a request that comes now with ``work`` of its own.

        Tenants take turns by tokens, so each other one gets as many as this one does, if it has
        them. Before a batch request go all interactive ones, before those the share of batch.
        """
        own = self._sums.get(share, Work())
        others = Work()
        for other, waiting in self._sums.items():
            if other != share and other.request_class is share.request_class:
                others = others.plus(waiting.at_most(own.total + work.total))
        return Ahead(own, others.plus(self._of_other_class(share, own.plus(others))))

    def _of_other_class(self, share: Share, same: Work) -> Work:
        waiting = Work()
        for other, each in self._sums.items():
            if other.request_class is not share.request_class:
                waiting = waiting.plus(each)
        if share.request_class is RequestClass.BATCH:
            return waiting
        return waiting.at_most(same.total * self._batch_rate)
