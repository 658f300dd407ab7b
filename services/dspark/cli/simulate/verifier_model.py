"""What a simulated verifier is like: its sizes, and what a step costs beside its pass."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.simulate.checks import at_least, shares
from dspark.cli.simulate.roofline import Roofline
from dspark.step import VerifierInfo, VerifyCost

# Tokens of simulated texts are few; see dspark.cli.simulate.guesses.
VOCAB_SIZE = 1024


@dataclass(frozen=True, slots=True)
class VerifierModel:
    """Sizes in tokens or blocks, times in milliseconds.

    A pass costs what ``verify_costs`` says, or what ``roofline`` computes if that is given. A call
    costs ``call_ms`` and ``call_ms_per_request`` beside it: the way there and back, admission,
    drawing and committing. For ``engine_share`` of that no other step can be in the verifier.
    ``jitter`` is the standard deviation of a pass's time, as a share, and ``device`` what the model
    runs on: ``cpu``, or anything else that is not busy with drafting and planning.
    """

    num_blocks: int
    block_size: int = 16
    max_step_rows: int = 512
    max_model_len: int = 8192
    verify_costs: tuple[VerifyCost, ...] = ()
    roofline: Roofline | None = None
    call_ms: float = 0.0
    call_ms_per_request: float = 0.0
    engine_share: float = 0.5
    device: str = "simulated"
    jitter: float = 0.0
    computes_ahead: bool = False
    caches_prefixes: bool = True

    def __post_init__(self) -> None:
        at_least(1, self, "num_blocks", "block_size", "max_step_rows", "max_model_len")
        at_least(0, self, "call_ms", "call_ms_per_request", "jitter")
        shares(self, "engine_share")
        if (self.roofline is None) == (not self.verify_costs):
            raise ValueError("one of verify_costs and roofline must be given, and not both")
        if any(cost.rows < 1 or cost.milliseconds <= 0 for cost in self.verify_costs):
            raise ValueError("verify_costs must have rows and milliseconds above 0")

    @property
    def known_costs(self) -> tuple[VerifyCost, ...]:
        """The table that the verifier says it measured."""
        return self.verify_costs if self.roofline is None else self.roofline.measured()

    def info(self) -> VerifierInfo:
        return VerifierInfo(
            model_id="simulated",
            model_digest="simulated",
            vocab_size=VOCAB_SIZE,
            max_model_len=self.max_model_len,
            eos_token_ids=frozenset(),
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            max_step_rows=self.max_step_rows,
            exactness="strict",
            kernel_class="simulated",
            dtype="simulated",
            device=self.device,
            verify_costs=self.known_costs,
            computes_ahead=self.computes_ahead,
        )
