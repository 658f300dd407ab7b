"""Speculation policies, by name."""

from __future__ import annotations

from collections.abc import Callable

from dspark.scheduler.policy.fixed import FixedPolicy
from dspark.scheduler.policy.interface import PolicySettings, SpeculationPolicy
from dspark.scheduler.policy.off import OffPolicy
from dspark.scheduler.policy.threshold import ThresholdPolicy

POLICIES: dict[str, Callable[[PolicySettings], SpeculationPolicy]] = {
    "threshold": ThresholdPolicy,
    "fixed": FixedPolicy,
    "off": OffPolicy,
}
