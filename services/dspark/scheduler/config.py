"""Settings of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspark.config import setting
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.policy import POLICIES
from dspark.scheduler.policy.interface import PolicySettings
from dspark.scheduler.wave_choice import WAVES
from dspark.service_addresses import check_targets
from dspark.telemetry.logs import LogSettings
from dspark.transport_security.settings import (
    ALLOW_PEERS_HELP,
    BackendTransportSettings,
    check_port,
)

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
class SchedulerConfig(FairnessSettings, BackendTransportSettings, LogSettings):
    """Where the scheduler listens, whom it calls, and how it batches and speculates."""

    verifier: tuple[str, ...] = field(
        metadata={"help": "addresses of verifiers, with commas; dns:///name:port is all of a name"}
    )
    listen: str = setting("127.0.0.1:50052", "address to serve on: host:port or unix:/path")
    candidates: tuple[str, ...] = setting(
        (),
        "addresses of candidates services, with commas; dns:///name:port is all of a name; unset: "
        "none",
    )
    policy: str = setting("economic", "speculation policy", choices=tuple(POLICIES))
    num_draft_tokens: int = setting(
        _POLICY.num_draft_tokens, "candidate tokens of a request in a step under the policy 'fixed'"
    )
    max_draft_tokens: int = setting(15, "largest number of candidate tokens of a request in a step")
    max_num_seqs: int = setting(64, "largest number of running requests")
    max_num_batched_tokens: int = setting(
        512, "largest number of tokens that a step computes, those of prompts among them"
    )
    waves: str = setting(
        "auto",
        "waves in which the requests of a verifier take turns, so that one drafts while the other "
        "is verified; auto: as measured, one where the model runs on processors",
        choices=tuple(WAVES),
    )
    max_waiting: int = setting(1024, "largest number of waiting requests")
    propose_deadline_ms: float = setting(25.0, "longest wait for candidates in a step")
    min_survival: float = setting(
        _POLICY.min_survival,
        "probability (0 to 1) to be accepted from which 'threshold' verifies a candidate token",
    )
    min_gain: float = setting(
        _POLICY.min_gain,
        "predicted gain, in tokens for each request, below which 'economic' asks for no candidates",
    )
    explore_share: float = setting(
        _POLICY.explore_share,
        "share (0 to 1) of the time spent on candidates that are priced out",
    )
    calibration_file: str = setting(
        "", "where what was learnt of candidates' scores outlives a restart; empty: nowhere"
    )
    decision_log: str = setting(
        "", "file to which every decision is appended for dspark replay; empty: none"
    )
    mute_after: int = setting(8, "rounds without an accepted token that mute a source")
    mute_steps: int = setting(64, "steps for which a source stays muted")
    breaker_failures: int = setting(5, "failed calls in a row that open the candidates breaker")
    breaker_open_s: float = setting(1.0, "first pause of an open candidates breaker")
    step_timeout_s: float = setting(30.0, "deadline of one Step call")
    verifier_timeout_s: float = setting(60.0, "how long requests wait for a lost verifier")
    failover_s: float = setting(
        1.0, "how long they wait for it while another verifier can go on with them"
    )
    rebalance: bool = setting(True, "move requests to verifiers at which they end much sooner")
    stall_s: float = setting(30.0, "time without a finished step that counts as unhealthy")
    drain_s: float = setting(30.0, "time for running requests to end after SIGTERM")
    record_calls: str = setting(
        "",
        "file to which each call to verifiers and candidates is appended, for dspark simulate; "
        "empty: none",
    )
    metrics_port: int = setting(0, "port of /metrics; 0: none")
    allow_peers: tuple[str, ...] = setting(("gateway",), ALLOW_PEERS_HELP)

    def __post_init__(self) -> None:
        self.check_transport()
        self.check_logs()
        self.check_fairness()
        self.serving(self.allow_peers)
        check_port(metrics_port=self.metrics_port)
        if not self.verifier:
            raise ValueError("verifier must name at least one address")
        check_targets(verifier=self.verifier, candidates=self.candidates)
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")
        if not 0 < self.min_survival <= 1:
            raise ValueError("min_survival must be above 0 and at most 1")
        if not 0 <= self.explore_share < 1:
            raise ValueError("explore_share must be from 0 to below 1")
        if not 0 <= self.min_gain < float("inf"):
            raise ValueError("min_gain must be 0 or more")
        for name in ("drain_s", "failover_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be 0 or more seconds")
