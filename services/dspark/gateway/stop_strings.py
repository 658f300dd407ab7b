"""Stop strings in a stream of text, each found as soon as it is complete."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopScan:
    """What one piece of text released, and the stop string that ended the text, if any."""

    text: str
    stop: str | None = None


class StopStringScanner:
    """Cuts a text before the stop string that ends first, the longest of those that end together.

    The result depends on the text alone, not on how it is split over calls of ``push``. Text that
    may be the start of a stop string is held back: of the text's ends, the longest with which some
    stop string begins. These are the states of the automaton of Aho and Corasick (1975), found as
    the text comes to them: a table of all would be large, and most of it never used.
    """

    def __init__(self, stop_strings: Sequence[str]) -> None:
        self._sorted = sorted(stop_strings)
        # By their last character, longest first.
        self._ending: dict[str, list[str]] = defaultdict(list)
        for stop in sorted(self._sorted, key=len, reverse=True):
            self._ending[stop[-1]].append(stop)
        self._held = ""

    def push(self, text: str, *, may_stop: bool = True) -> StopScan:
        """A stop string that ends where the text may not stop is text like any other."""
        whole = self._held + text
        for end, char in enumerate(text, start=len(self._held) + 1):
            self._held = self._start_within(self._held + char)
            if may_stop and (stop := self._stop_at_end(self._held)) is not None:
                self._held = ""
                return StopScan(whole[: end - len(stop)], stop)
        return StopScan(whole[: len(whole) - len(self._held)])

    def flush(self) -> str:
        """The text held back, at the end of the stream."""
        held, self._held = self._held, ""
        return held

    def _start_within(self, text: str) -> str:
        """The longest end of the text with which a stop string begins."""
        while text and not self._begins_one(text):
            text = text[1:]
        return text

    def _begins_one(self, text: str) -> bool:
        # What begins with a text follows it in order, before anything else does.
        place = bisect_left(self._sorted, text)
        return place < len(self._sorted) and self._sorted[place].startswith(text)

    def _stop_at_end(self, text: str) -> str | None:
        if not text:
            return None
        return next((s for s in self._ending.get(text[-1], ()) if text.endswith(s)), None)
