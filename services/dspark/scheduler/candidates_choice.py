"""Which candidates service a verifier's worker asks (pure).

The one on this machine first, for every step waits for its reply; among those the one that has the
least to do by the measured time of its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

# Another one must be this much less loaded to be worth a turn, after which all sequences are new.
WORTHWHILE_SHARE = 0.5
# Before any service was measured.
FIRST_MS = 1.0


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A service as one link sees it; ``num_links`` are those of others that ask it."""

    name: str
    is_near: bool
    is_refused: bool = False
    propose_ms: float | None = None
    num_links: int = 0

    @property
    def rank(self) -> tuple[bool, bool]:
        """Smaller is better, whatever the load."""
        return self.is_refused, not self.is_near

    def load_ms(self, typical_ms: float) -> float:
        """Time of calls that it answers in a round, with this link's own.

        One that was never asked is taken to be like the others.
        """
        propose_ms = typical_ms if self.propose_ms is None else self.propose_ms
        return (self.num_links + 1) * propose_ms


def choose_service(views: Sequence[ServiceView], present: str | None) -> str | None:
    """The name of the service to ask; the present one unless another is clearly better."""
    measured = [view.propose_ms for view in views if view.propose_ms is not None]
    typical_ms = fmean(measured) if measured else FIRST_MS
    best = min(views, key=lambda view: (view.rank, view.load_ms(typical_ms)), default=None)
    if best is None:
        return None
    now = next((view for view in views if view.name == present), None)
    if now is None or best.rank < now.rank:
        return best.name
    limit_ms = WORTHWHILE_SHARE * now.load_ms(typical_ms)
    return best.name if best.load_ms(typical_ms) <= limit_ms else now.name
