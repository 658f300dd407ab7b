"""What all workers of a scheduler count and learn together."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from dspark.scheduler.calibration_store import CalibrationStore
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.decision_log import DecisionLog
from dspark.scheduler.live_requests import Numbers
from dspark.scheduler.moves import Moves
from dspark.scheduler.output_lengths import OutputLengths
from dspark.scheduler.stats import Totals
from dspark.scheduler.step_timing import TimingRing

# Epochs follow the time, in sixteenths of a second, so those of a scheduler that goes on with the
# requests of another, or of its own former process, are larger.
_EPOCH_ZERO_S = 1_750_000_000
_EPOCHS_PER_S = 16


@dataclass(frozen=True, slots=True)
class Books:
    """``decisions`` is None where they are not logged."""

    totals: Totals
    timings: TimingRing
    numbers: Numbers
    calibrations: CalibrationStore
    decisions: DecisionLog | None = None
    outputs: OutputLengths = field(default_factory=OutputLengths)
    moves: Moves = field(default_factory=Moves)


def new_books(config: SchedulerConfig) -> Books:
    """Empty ones, but for what was learnt before and saved."""
    return Books(
        Totals(),
        TimingRing(),
        Numbers(_epoch_now),
        CalibrationStore.load(config.calibration_file),
        DecisionLog(Path(config.decision_log)) if config.decision_log else None,
    )


def _epoch_now() -> int:
    return max(1, int((time.time() - _EPOCH_ZERO_S) * _EPOCHS_PER_S) & 0x7FFF_FFFF)
