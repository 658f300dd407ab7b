"""Settings of ``dspark simulate``."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.simulate.known_systems import DEFAULT_SYSTEM, KNOWN_SYSTEMS
from dspark.cli.simulate.lengths import parse_lengths
from dspark.config import flag_of, setting
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.policy import POLICIES

_ARRIVALS = ("poisson", "burst")


@dataclass(frozen=True, slots=True)
class SimulateConfig:
    """The system, its workers, the load and the targets."""

    system: str = setting(
        DEFAULT_SYSTEM, f"what a worker is like: {', '.join(KNOWN_SYSTEMS)}, or a JSON file"
    )
    calibrate_from: str | None = setting(
        None,
        "record of a real run (the scheduler's --record-calls), in place of --system; unset: none",
    )
    measure: str | None = setting(
        None,
        "address of a running verifier, whose sizes and cost table replace the system's; "
        "unset: none",
    )
    write_system: str | None = setting(
        None, "write the system there as JSON, for --system; unset: nowhere"
    )
    workers: int = setting(1, "number of verifiers, each with candidates of its own")
    speeds: str = setting("1", "speeds of the workers in turn, such as 1,0.25")
    policy: str = setting(SchedulerConfig.policy, f"policies to compare: {', '.join(POLICIES)}")
    concurrency: str | None = setting(
        None, "requests in flight, such as 1,8,32: each waits for one to end (default 1,8,32)"
    )
    rate: str | None = setting(
        None, "requests that come a second, such as 1,2,4; unset: --concurrency"
    )
    trace: str | None = setting(
        None,
        "JSON lines of requests with arrival_s, prompt_tokens, output_tokens; unset: --concurrency",
    )
    trace_speed: str = setting("1", "how many times as fast the trace comes, such as 0.5,1,2")
    arrivals: str = setting("poisson", "how requests of a rate come", choices=_ARRIVALS)
    burst_size: int = setting(16, "requests that come at once in a burst")
    requests: int = setting(500, "requests of each load")
    prompt_tokens: str = setting(
        "256", "lengths of prompts in tokens: 256, 64-512 or 256~0.8 (log-normal)"
    )
    output_tokens: str = setting("128", "lengths of outputs in tokens, told in the same way")
    prefix_tokens: int = setting(0, "tokens at the start of a prompt that others have as well")
    prefix_groups: int = setting(1, "different such starts")
    ttft_target_ms: float = setting(1000.0, "time to the first token that counts for goodput")
    tpot_target_ms: float = setting(100.0, "time of each later token that counts for goodput")
    seed: int = setting(0, "the same seed gives the same results")
    json: str | None = setting(None, "write the results there as JSON; unset: nowhere")
    plot: str | None = setting(None, "write charts over the load there, as HTML; unset: nowhere")

    def __post_init__(self) -> None:
        for name in ("workers", "requests", "burst_size", "prefix_groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"{flag_of(name)} must be at least 1")
        if self.prefix_groups > 500:
            raise ValueError(f"{flag_of('prefix_groups')} must be at most 500")
        if self.prefix_tokens < 0:
            raise ValueError(f"{flag_of('prefix_tokens')} must be 0 or more")
        for name in ("ttft_target_ms", "tpot_target_ms"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{flag_of(name)} must be above 0")
        for name in ("prompt_tokens", "output_tokens"):
            try:
                parse_lengths(getattr(self, name))
            except ValueError as error:
                raise ValueError(f"{flag_of(name)}: {error}") from error
        if sum(each is not None for each in (self.concurrency, self.rate, self.trace)) > 1:
            raise ValueError("only one of --concurrency, --rate and --trace can be given")
        if unknown := [name for name in self.policies if name not in POLICIES]:
            raise ValueError(f"--policy: {unknown[0]!r} is not one of {', '.join(POLICIES)}")
        if any(level != int(level) for level in self.levels) and self.is_closed:
            raise ValueError("--concurrency must be whole numbers")
        _numbers("speeds", self.speeds)
        if not self.policies:
            raise ValueError(f"--policy must name one of {', '.join(POLICIES)}")

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.policy.split(",") if part.strip())

    @property
    def is_closed(self) -> bool:
        return self.rate is None and self.trace is None

    @property
    def levels(self) -> tuple[float, ...]:
        """The loads to run; raises ValueError."""
        if self.trace is not None:
            return _numbers("trace_speed", self.trace_speed)
        if self.rate is not None:
            return _numbers("rate", self.rate)
        return _numbers("concurrency", self.concurrency or "1,8,32")

    @property
    def level_name(self) -> str:
        if self.is_closed:
            return "requests in flight"
        return "requests a second" if self.rate is not None else "speed of the trace"

    @property
    def worker_speeds(self) -> tuple[float, ...]:
        return _numbers("speeds", self.speeds)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{flag_of(name)}: {text!r} is no list of numbers") from error
    if not found:
        raise ValueError(f"{flag_of(name)} must have at least one number")
    if not all(0 < number < float("inf") for number in found):
        raise ValueError(f"{flag_of(name)} must be numbers above 0")
    return found
