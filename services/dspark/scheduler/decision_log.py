"""Every decision on candidates and what became of it, as lines of JSON for ``dspark replay``.

A line is written once it is known how far the committed tokens followed each tree. It has neither
tokens nor text, only the shape of trees, scores, costs and which nodes were right.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dspark.scheduler.outcomes import Outcome
from dspark.scheduler.policy.interface import StepContext
from dspark.token_tree import TokenTree

log = logging.getLogger(__name__)

# Costs of so many more rows than the step has without candidates are written.
MAX_PRICED_ROWS = 64
# Decisions whose end is open; the oldest is written as it is.
MAX_PENDING = 4096
# Lines are written so many at a time.
LINES_A_WRITE = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """A request that may take candidates, and the tree that it was offered, if it asked for one.

    ``parents``, ``scores``, ``survivals`` and ``masks`` have one entry a node, best node first, and
    are as in a TokenTree; ``bought`` has the nodes that were verified. ``tried`` has those whose
    parent was committed, and ``path`` those that were themselves, from the anchor down; neither
    depends on what was verified.
    """

    request_id: str
    max_nodes: int
    propose_ms: float
    asked: int = 0
    parents: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    survivals: tuple[float, ...] = ()
    masks: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    bought: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()
    path: tuple[int, ...] = ()
    temperature_bin: int = 0


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """The decision of one step; meanings as in StepContext.

    ``row_ms[n]`` is the time of the forward pass with n nodes. Older logs lack the last fields.
    """

    num_rows: int
    num_committing: int
    max_nodes: int
    overhead_ms: float
    propose_ms: float
    price: float
    row_ms: tuple[float, ...]
    offers: tuple[Offer, ...]
    num_decoding: int = 0
    decoding_ms: float = 0.0
    prompts_wait: bool = False

    @classmethod
    def from_json(cls, line: str) -> LoggedStep:
        """Raises ValueError for a line that is not one."""
        try:
            fields: dict[str, Any] = json.loads(line)
            offers = (Offer(**_tuples(offer)) for offer in fields.pop("offers"))
            return cls(offers=tuple(offers), **_tuples(fields))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a logged step: {error}") from error

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def priced_rows(context: StepContext) -> tuple[float, ...]:
    """Milliseconds of the forward pass with 0, 1, 2... nodes; empty without a cost table."""
    if context.costs is None:
        return ()
    counts = range(min(context.max_nodes, MAX_PRICED_ROWS) + 1)
    return tuple(round(context.costs.ms(context.num_rows + count), 4) for count in counts)


@dataclass(slots=True)
class _Pending:
    step: LoggedStep
    # by index of the offer
    outcomes: Mapping[int, Outcome]

    @property
    def is_over(self) -> bool:
        return not any(outcome.is_open for outcome in self.outcomes.values())

    def final(self) -> LoggedStep:
        offers = list(self.step.offers)
        for index, outcome in self.outcomes.items():
            tried = tuple(node for node, _ in outcome.tried)
            offers[index] = replace(offers[index], tried=tried, path=tuple(outcome.path))
        return replace(self.step, offers=tuple(offers))


@dataclass(slots=True)
class DecisionLog:
    """Appends to a file. If that fails it says so once, and decisions are no longer written."""

    path: Path
    _pending: deque[_Pending] = field(default_factory=deque)
    _num_added: int = 1
    _is_broken: bool = False

    def add(self, step: LoggedStep, outcomes: Mapping[int, Outcome]) -> None:
        """``outcomes`` has that of each offer with a tree, by its index; they may be open."""
        if self._is_broken:
            return
        self._pending.append(_Pending(step, outcomes))
        if self._num_added % LINES_A_WRITE == 0:
            due = []
            while self._pending and (self._pending[0].is_over or len(self._pending) > MAX_PENDING):
                due.append(self._pending.popleft())
            self._write(due)
        self._num_added += 1

    def close(self) -> None:
        """Write what is open as it is."""
        due, self._pending = list(self._pending), deque()
        self._write(due)

    def _write(self, due: Sequence[_Pending]) -> None:
        if not due:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(f"{pending.final().to_json()}\n" for pending in due)
        except OSError as error:
            self._is_broken = True
            log.error("decisions are no longer written to %s: %s", self.path, error)


def nodes_of(part: TokenTree, whole: TokenTree) -> tuple[int, ...]:
    """The nodes of ``whole`` that ``part``, a subtree of it, has."""
    entries = [0]
    for token_id, parent in zip(part.token_ids, part.parents, strict=True):
        entries.append(whole.children[entries[parent]][token_id])
    return tuple(entry - 1 for entry in entries[1:])


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
