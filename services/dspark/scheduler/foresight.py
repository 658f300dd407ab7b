"""What coming steps are going to ask of candidates, decided as far ahead as that is of use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from dspark.scheduler.policy.interface import Budget
from dspark.scheduler.request import Request

Decision: TypeAlias = dict[Request, Budget]
"""What each decoding request may ask for in one step."""


class Foresight:
    """Decisions, the next step's first; each ``take`` moves on by one.

    One that follows another was made while nobody was going to be asked before it, so that nothing
    is learnt meanwhile which it could depend on.
    """

    def __init__(self) -> None:
        self._steps: deque[Decision] = deque()

    def take(self, requests: Iterable[Request]) -> Decision | None:
        """What was decided for all of these requests; None if it was not for one of them."""
        if not self._steps:
            return None
        decided = self._steps.popleft()
        return decided if all(request in decided for request in requests) else None

    def extend(
        self, requests: Sequence[Request], depth: int, decide: Callable[[], Decision]
    ) -> None:
        """Decide up to ``depth`` steps, but none after one that asks.

        All is decided anew where a request is missing.
        """
        if any(request not in step for step in self._steps for request in requests):
            self._steps.clear()
        while len(self._steps) < depth and not (self._steps and asks(self._steps[-1])):
            self._steps.append(decide())

    def settle(self, num_steps: int, requests: Iterable[Request]) -> None:
        """Where nobody asks in so many next steps, nor does one of these of which nothing is
        decided: it has just come.
        """
        coming = list(islice(self._steps, num_steps))
        if not any(map(asks, coming)):
            for step in coming:
                step.update({request: Budget() for request in requests if request not in step})

    def asks_nothing(self, num_steps: int, requests: Iterable[Request]) -> bool:
        """Whether it is settled that none of these requests asks in the next ``num_steps``."""
        if any(asks(step) for step in islice(self._steps, num_steps)):
            return False
        known = self._steps[num_steps - 1] if num_steps <= len(self._steps) else {}
        return all(r in known or not r.spec.speculation.enabled for r in requests)

    def forget(self, request: Request) -> None:
        """It ended: nothing here keeps it alive."""
        for step in self._steps:
            step.pop(request, None)

    def clear(self) -> None:
        self._steps.clear()


def asks(budgets: Mapping[Request, Budget]) -> bool:
    return any(budget.max_nodes for budget in budgets.values())
