"""Results of steps, counted by what became of the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dspark.step import WorkResult, WorkStatus


class WorkCounts:
    """Work that is done, as nearly all is, is not looked up one by one."""

    def __init__(self) -> None:
        self._num_results = 0
        self._refusals: Counter[WorkStatus] = Counter()

    def add(self, results: Sequence[WorkResult]) -> None:
        """Count the results of one step."""
        self._num_results += len(results)
        for result in results:
            if result.status is not WorkStatus.DONE:
                self._refusals[result.status] += 1

    @property
    def by_status(self) -> dict[WorkStatus, int]:
        """All statuses, those that never came with 0."""
        refusals = dict(self._refusals)
        done = self._num_results - sum(refusals.values())
        return {**dict.fromkeys(WorkStatus, 0), **refusals, WorkStatus.DONE: done}
