"""Which sources are worth the time of asking them: what each brings that no cheaper one does.

A new source is on trial first. What that costs is not held against asking: if it were, a dear one
would keep all from being asked, and would never be found out. So a dear one is tried now and then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dspark.token_tree import TokenTree, names_in

# Old askings fade by this much with each new one.
DECAY = 0.995
# A source that is new counts as so many askings in which it was just worth its time.
TRIAL_ASKINGS = 32
# Trials of a dear source are so far apart that they take what brings about this many tokens a step.
TRIAL_TOKENS = 0.5
# A request that is to try a source, and has not done so for as many steps, is not waited for.
MAX_WAIT = 64
# One that is priced out is tried again after so many steps, then after twice as many.
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
    # a dear one: the step of the next trial, and the request that is to make it since some step
    trial_at: int = 0
    trial_of: str = ""
    trial_since: int = 0
    # steps between two trials, as of now
    interval: int = 1
    pause: int = FIRST_PAUSE
    # the step in which it may be asked again; None while it may
    paused_until: int | None = None

    def is_paused(self, step: int) -> bool:
        """Whether it is; when its pause is over, all is forgotten but how long that was."""
        if self.paused_until is not None and step >= self.paused_until:
            self.paused_until, self.trial_left = None, TRIAL_ASKINGS
            self.askings = self.tokens = 0.0
        return self.paused_until is not None

    def is_tried_by(self, request_id: str, needed_tokens: float, step: int) -> bool:
        """Whether this request tries it in this step; a cheap one is tried by all of them."""
        self.interval = max(1, math.ceil(needed_tokens / TRIAL_TOKENS))
        if self.interval == 1:
            return True
        if step < self.trial_at:
            return False
        if not self.trial_of or step - self.trial_since > MAX_WAIT:
            self.trial_of, self.trial_since = request_id, step
        return self.trial_of == request_id


class SourceValues:
    """Learns from askings and verified trees, over all requests.

    A node that several sources proposed is credited to the cheapest of them: without the others it
    would have been there as well.
    """

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def worth(
        self,
        sources: Sequence[str],
        ms_of: Mapping[str, float],
        price: float,
        step: int,
        request_id: str = "",
    ) -> tuple[str, ...]:
        """The sources to ask for a request in this step, at ``price`` tokens a millisecond."""
        return tuple(
            name
            for name in sources
            if self._is_worth(name, ms_of.get(name), price, step, request_id)
        )

    def is_proven(self, name: str) -> bool:
        """Whether its trial is over, so that its time counts."""
        record = self._records.get(name)
        return record is not None and not record.trial_left

    def asked(self, sources: Sequence[str], step: int = 0) -> None:
        """One request asked these in this step."""
        for name in sources:
            record = self._records.setdefault(name, _Record())
            record.askings = record.askings * DECAY + 1
            record.tokens *= DECAY
            record.trial_left = max(0, record.trial_left - 1)
            record.trial_of, record.trial_at = "", step + record.interval

    def credit(
        self, tree: TokenTree, accepted_nodes: Sequence[int], ms_of: Mapping[str, float]
    ) -> None:
        """What became of a verified tree; ``accepted_nodes`` has entries, which start at 1."""
        for entry in accepted_nodes:
            names = names_in(tree.source_masks[entry - 1], tree.source_names)
            cheapest = min(names, key=lambda name: ms_of.get(name, 0.0), default="")
            if (record := self._records.get(cheapest)) is not None:
                record.tokens += 1

    def _is_worth(
        self, name: str, ms: float | None, price: float, step: int, request_id: str
    ) -> bool:
        if ms is None:
            return True
        record = self._records.setdefault(name, _Record())
        if record.is_paused(step):
            return False
        if record.trial_left:
            return record.is_tried_by(request_id, price * ms, step)
        if record.tokens >= MIN_SHARE * price * ms * record.askings:
            record.pause = FIRST_PAUSE
            return True
        record.paused_until = step + record.pause
        record.pause = min(2 * record.pause, MAX_PAUSE)
        return False
