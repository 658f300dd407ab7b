"""Settings of the scheduler."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import PolicySettings

_POLICY = PolicySettings()
_POSITIVE = (
    "num_draft_tokens",
    "max_draft_tokens",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_waiting",
    "propose_deadline_ms",
    "mute_after",
    "mute_steps",
    "breaker_failures",
    "breaker_open_s",
    "step_timeout_s",
    "verifier_timeout_s",
    "stall_s",
)


@dataclass(frozen=True)
class SchedulerConfig:
    """Where the scheduler listens, whom it calls, and how it batches and speculates."""

    listen: str = field(metadata={"help": "address to serve on: host:port or unix:/path"})
    verifier: str = field(metadata={"help": "address of the verifier"})
    candidates: str = field(
        default="", metadata={"help": "address of the candidates service; empty means none"}
    )
    policy: str = field(
        default="threshold",
        metadata={"help": "speculation policy", "choices": tuple(POLICIES)},
    )
    num_draft_tokens: int = field(
        default=_POLICY.num_draft_tokens,
        metadata={"help": "nodes per request and step of the policy 'fixed'"},
    )
    max_draft_tokens: int = field(
        default=15, metadata={"help": "largest number of nodes per request and step"}
    )
    max_num_seqs: int = field(default=64, metadata={"help": "largest number of running requests"})
    max_num_batched_tokens: int = field(default=512, metadata={"help": "rows of one step"})
    max_waiting: int = field(default=1024, metadata={"help": "largest number of waiting requests"})
    propose_deadline_ms: float = field(
        default=25.0, metadata={"help": "longest wait for candidates in a step"}
    )
    min_gain: float = field(
        default=_POLICY.min_gain,
        metadata={"help": "predicted gain below which 'threshold' buys nothing"},
    )
    explore_share: float = field(
        default=_POLICY.explore_share,
        metadata={"help": "share of time spent on candidates that are priced out"},
    )
    mute_after: int = field(
        default=8, metadata={"help": "rounds without an accepted node that mute a source"}
    )
    mute_steps: int = field(default=64, metadata={"help": "steps for which a source stays muted"})
    breaker_failures: int = field(
        default=5, metadata={"help": "failed calls in a row that open the candidates breaker"}
    )
    breaker_open_s: float = field(
        default=1.0, metadata={"help": "first pause of an open candidates breaker"}
    )
    step_timeout_s: float = field(default=30.0, metadata={"help": "deadline of one Step call"})
    verifier_timeout_s: float = field(
        default=60.0, metadata={"help": "how long requests wait for a lost verifier"}
    )
    stall_s: float = field(
        default=30.0, metadata={"help": "time without a finished step that counts as unhealthy"}
    )
    drain_s: float = field(
        default=30.0, metadata={"help": "time for running requests to end after SIGTERM"}
    )
    metrics_port: int = field(default=0, metadata={"help": "port of /metrics; 0 means none"})
    log_level: str = field(default="INFO", metadata={"help": "logging level"})

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")
        if not 0 <= self.explore_share < 1:
            raise ValueError("explore_share must be from 0 to below 1")
        if not 0 <= self.drain_s < float("inf"):
            raise ValueError("drain_s must be 0 or more seconds")
        if self.log_level.upper() not in logging.getLevelNamesMapping():
            raise ValueError(f"log_level {self.log_level!r} is no level of Python's logging")
