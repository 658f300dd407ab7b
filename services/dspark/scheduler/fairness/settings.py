"""Settings of who goes first, who gives way, who is refused, and what counts as served well."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dspark.config import setting
from dspark.request_class import RequestClass

_SHARES = ("batch_share", "long_share", "tenant_share")
_POSITIVE = ("ageing_s", "long_output_tokens", "long_prompt_tokens")
_NOT_NEGATIVE = (
    *("preempt_after_s", "max_prompt_ms", "interactive_max_wait_s", "batch_max_wait_s"),
    *("interactive_ttft_ms", "interactive_tpot_ms", "batch_ttft_ms", "batch_tpot_ms"),
)


@dataclass(frozen=True, slots=True)
class Targets:
    """What a request must keep to be served well, in milliseconds; 0 means no target."""

    ttft_ms: float = 0.0
    tpot_ms: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FairnessSettings:
    """To be inherited by the scheduler's config, which calls ``check_fairness`` when it is made."""

    ageing_s: float = setting(30.0, "waiting time that is worth one level of priority")
    batch_share: float = setting(
        0.1, "share (0 to 1) of the tokens that batch requests get while interactive ones wait"
    )
    tenant_share: float = setting(
        0.9, "share (0 to 1) of the running requests that a tenant may have while others wait"
    )
    long_share: float = setting(
        0.5, "share (0 to 1) of the running requests that may be long while short ones wait"
    )
    long_output_tokens: int = setting(
        1024, "tokens of expected output from which on a request is long"
    )
    long_prompt_tokens: int = setting(1024, "tokens of a prompt from which on a request is long")
    preempt_after_s: float = setting(
        0.0, "wait after which another request gives way to an interactive one"
    )
    max_prompt_ms: float = setting(
        100.0, "longest time that the prompts of a step may take; 0: no limit"
    )
    interactive_max_wait_s: float = setting(
        0.0, "predicted wait above which interactive requests are refused; 0: none are"
    )
    batch_max_wait_s: float = setting(
        0.0, "predicted wait above which batch requests are refused; 0: none are"
    )
    interactive_ttft_ms: float = setting(
        1000.0, "target for the first token of interactive requests; 0: none"
    )
    interactive_tpot_ms: float = setting(
        100.0, "target for each later token of interactive requests; 0: none"
    )
    batch_ttft_ms: float = setting(0.0, "target for the first token of batch requests; 0: none")
    batch_tpot_ms: float = setting(0.0, "target for each later token of batch requests; 0: none")

    def check_fairness(self) -> None:
        """Raises ValueError that begins with the setting's name."""
        for name in _SHARES:
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be above 0 and below 1")
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0")
        for name in _NOT_NEGATIVE:
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or more")

    def max_wait_s(self, request_class: RequestClass) -> float:
        """The longest predicted wait; 0 means any."""
        is_batch = request_class is RequestClass.BATCH
        return self.batch_max_wait_s if is_batch else self.interactive_max_wait_s

    def targets(self, request_class: RequestClass) -> Targets:
        if request_class is RequestClass.BATCH:
            return Targets(self.batch_ttft_ms, self.batch_tpot_ms)
        return Targets(self.interactive_ttft_ms, self.interactive_tpot_ms)
