"""Which sources are worth the time of asking them: what each brings that no cheaper one does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dspark.token_tree import TokenTree, names_in

# Old askings fade by this much with each new one.
DECAY = 0.995
# A source that is new counts as so many askings in which it was just worth its time.
TRIAL_ASKINGS = 32
# One that is priced out is asked again after so many askings without it, then after twice as many.
FIRST_PAUSE = 512
MAX_PAUSE = 8192
# A source goes only when it clearly is not worth its time, so that it does not come and go.
MIN_SHARE = 0.8


@dataclass(slots=True)
class _Record:
    """``tokens`` that it alone, or as the cheapest, brought in so many ``askings``."""

    askings: float = 0.0
    tokens: float = 0.0
    trial_left: int = TRIAL_ASKINGS
    pause: int = FIRST_PAUSE
    pause_left: int = 0


class SourceValues:
    """Learns from verified trees, over all requests.

    A node that several sources proposed is credited to the cheapest of them: without the others it
    would have been there as well.
    """

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def worth(
        self, sources: Sequence[str], ms_of: Mapping[str, float], price: float
    ) -> tuple[str, ...]:
        """The sources to ask for one request, at ``price`` tokens a millisecond."""
        return tuple(name for name in sources if self._is_worth(name, ms_of.get(name), price))

    def asked(self, sources: Collection[str]) -> None:
        """One request asked these and no others: pauses get shorter by one."""
        for name, record in self._records.items():
            if name not in sources and record.pause_left:
                record.pause_left -= 1
                if not record.pause_left:
                    record.trial_left = TRIAL_ASKINGS
                    record.askings = record.tokens = 0.0

    def update(
        self,
        asked: Sequence[str],
        tree: TokenTree,
        accepted_nodes: Sequence[int],
        ms_of: Mapping[str, float],
    ) -> None:
        """What became of a verified tree, for which ``asked`` were asked; entries from 1."""
        credit: dict[str, int] = dict.fromkeys(asked, 0)
        for entry in accepted_nodes:
            names = names_in(tree.source_masks[entry - 1], tree.source_names)
            cheapest = min(names, key=lambda name: ms_of.get(name, 0.0), default=None)
            if cheapest in credit:
                credit[cheapest] += 1
        for name, tokens in credit.items():
            record = self._records.setdefault(name, _Record())
            record.askings = record.askings * DECAY + 1
            record.tokens = record.tokens * DECAY + tokens
            record.trial_left = max(0, record.trial_left - 1)

    def _is_worth(self, name: str, ms: float | None, price: float) -> bool:
        record = self._records.get(name)
        if record is None or ms is None or record.trial_left:
            return True
        if record.pause_left:
            return False
        if record.tokens >= MIN_SHARE * price * ms * record.askings:
            record.pause = FIRST_PAUSE
            return True
        record.pause_left, record.pause = record.pause, min(2 * record.pause, MAX_PAUSE)
        return False
