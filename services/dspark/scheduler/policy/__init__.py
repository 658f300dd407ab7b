"""Speculation policies, by name."""

from __future__ import annotations

from collections.abc import Callable

from dspark.scheduler.policy.economic import EconomicPolicy
from dspark.scheduler.policy.fixed import FixedPolicy
from dspark.scheduler.policy.interface import PolicySettings, SpeculationPolicy
from dspark.scheduler.policy.off import OffPolicy
from dspark.scheduler.policy.per_request import PerRequestPolicy
from dspark.scheduler.policy.threshold import ThresholdPolicy

POLICIES: dict[str, Callable[[PolicySettings], SpeculationPolicy]] = {
    "economic": EconomicPolicy,
    "fixed": FixedPolicy,
    "threshold": ThresholdPolicy,
    "off": OffPolicy,
}


def make_policy(name: str, settings: PolicySettings) -> SpeculationPolicy:
    """The server's policy, from which requests may deviate."""
    return PerRequestPolicy(POLICIES[name](settings), lambda other: POLICIES[other](settings))
