"""What drafting for one verifier goes by: what all its waves know, and the present step of one."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspark.proposal import CandidatesInfo
from dspark.scheduler.calibration import Calibration
from dspark.scheduler.candidates_link import CandidatesLink
from dspark.scheduler.decision_log import DecisionLog
from dspark.scheduler.draft_states import DraftStates
from dspark.scheduler.drafting_books import DraftingBooks, Fallback
from dspark.scheduler.feature_wishes import FeatureWishes
from dspark.scheduler.online_costs import OnlineCosts
from dspark.scheduler.policy.interface import SpeculationPolicy
from dspark.scheduler.propose_price import ProposePrice
from dspark.scheduler.request import Request
from dspark.scheduler.source_values import SourceValues

FIRST_PROPOSE_MS = 2.0


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """What every tree must fit; sizes in tokens."""

    vocab_size: int
    max_len: int
    max_draft_tokens: int
    mute_after: int
    mute_steps: int


@dataclass(slots=True)
class DraftKnowledge:
    """Shared by the waves of a verifier: what is decided by, and what was learnt.

    It may cost time, but never changes a token. ``link`` is None where there are no candidates,
    ``costs`` where nothing was measured, and ``log`` where decisions are not logged.
    """

    policy: SpeculationPolicy
    link: CandidatesLink | None
    limits: DraftLimits
    costs: OnlineCosts | None
    books: DraftingBooks = field(default_factory=DraftingBooks)
    calibration: Calibration = field(default_factory=Calibration)
    propose_price: ProposePrice = field(default_factory=lambda: ProposePrice(FIRST_PROPOSE_MS))
    features: FeatureWishes = field(default_factory=FeatureWishes)
    log: DecisionLog | None = None
    # whether it is of use to know that steps ask for nothing
    computes_ahead: bool = False
    states: DraftStates = field(init=False)

    def __post_init__(self) -> None:
        limits = self.limits
        self.states = DraftStates(limits.mute_after, limits.mute_steps, limits.max_draft_tokens)

    @property
    def info(self) -> CandidatesInfo | None:
        """What candidates say of themselves; None while nobody can be asked."""
        link = self.link
        if self.policy.is_off or link is None or not link.is_usable:
            return None
        return link.info

    @property
    def obstacle(self) -> Fallback:
        """Why nobody can be asked."""
        if self.policy.is_off:
            return Fallback.OFF
        return Fallback.NO_SERVICE if self.link is None else Fallback.UNAVAILABLE

    def end(self, request: Request, completed: bool) -> None:
        """Learn from what is still open of a request that ended; candidates are told later."""
        for outcome in self.states.forget(request):
            self.calibration.update(outcome)
        was_told = request.spec.speculation.enabled and request.epoch
        if was_told and not self.policy.is_off and self.link is not None:
            self.link.graph.add_end(request, completed)


@dataclass(slots=True)
class PresentStep:
    """What drafting of one wave goes by in its present step; all but ``number`` is given."""

    # counted alike in all waves
    number: int = 0
    # tokens that a row attends to, averaged over the requests
    mean_context: float = 0.0
    # share of the time of drafting in which the verifier has nothing else to do
    exposed: float = 1.0
    # what a step that asks loses beside that, since it cannot be computed ahead
    lost_ms: float = 0.0
    values: SourceValues = field(default_factory=SourceValues)
