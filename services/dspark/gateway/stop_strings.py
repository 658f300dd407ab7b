"""Stop strings in a stream of text, found by the automaton of Aho and Corasick (1975)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class _State:
    """``depth`` characters of the text's end are the start of some stop string."""

    depth: int
    children: dict[str, _State] = field(default_factory=dict)
    fallback: _State | None = None
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class StopScan:
    """What one piece of text released, and the stop string that ended the text, if any."""

    text: str
    stop: str | None = None


class StopStringScanner:
    """Cuts a text before the stop string that ends first, the longest of those that end together.

    The result depends on the text alone, not on how it is split over calls of ``push``. Text that
    may be the start of a stop string is held back.
    """

    def __init__(self, stop_strings: Sequence[str]) -> None:
        self._root = self._state = _build(stop_strings)
        self._held = ""

    def push(self, text: str, *, may_stop: bool = True) -> StopScan:
        """A stop string that ends where the text may not stop is text like any other."""
        whole = self._held + text
        for end, char in enumerate(text, start=len(self._held) + 1):
            self._state = self._next(char)
            if may_stop and self._state.stop is not None:
                self._held = ""
                return StopScan(whole[: end - len(self._state.stop)], self._state.stop)
        cut = len(whole) - self._state.depth
        self._held = whole[cut:]
        return StopScan(whole[:cut])

    def flush(self) -> str:
        """The text held back, at the end of the stream."""
        held, self._held = self._held, ""
        self._state = self._root
        return held

    def _next(self, char: str) -> _State:
        state: _State | None = self._state
        while state is not None:
            if char in state.children:
                return state.children[char]
            state = state.fallback
        return self._root


def _build(stop_strings: Sequence[str]) -> _State:
    root = _State(0)
    for stop in stop_strings:
        state = root
        for char in stop:
            state = state.children.setdefault(char, _State(state.depth + 1))
        state.stop = stop
    queue = deque([root])
    while queue:
        state = queue.popleft()
        for char, child in state.children.items():
            child.fallback = _fallback(state.fallback, char, root)
            child.stop = child.stop or child.fallback.stop
            queue.append(child)
    return root


def _fallback(state: _State | None, char: str, root: _State) -> _State:
    while state is not None:
        if char in state.children:
            return state.children[char]
        state = state.fallback
    return root
