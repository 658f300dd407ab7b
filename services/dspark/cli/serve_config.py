"""Settings of ``dspark serve``."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.service_settings import of
from dspark.cli.services_config import ServicesConfig
from dspark.config import flag_of, setting
from dspark.gateway.config import GatewayConfig
from dspark.scheduler.config import SchedulerConfig

_ADDRESSES, _FAIRNESS, _TARGETS = "addresses", "queues and fairness", "targets of goodput"
_LIMITS = "limits of a request"


@dataclass(frozen=True, slots=True)
class ServeConfig(ServicesConfig):
    """What matters once others send requests: addresses, who goes first, and how much is taken."""

    host: str = setting("127.0.0.1", "address to listen on", group=_ADDRESSES)
    http_port: int = setting(
        8000, "port of the HTTP API; 0 picks a free one", group=_ADDRESSES, aliases=("--port",)
    )
    grpc_port: int = setting(50051, "port of the gRPC API; 0 picks a free one", group=_ADDRESSES)
    served_model_name: str | None = setting(
        None, "name that clients ask for; unset: from --model", group=_ADDRESSES
    )

    max_waiting: int | None = of(
        SchedulerConfig, "max_waiting", _FAIRNESS, aliases=["--max-queued-requests"]
    )
    interactive_max_wait_s: float | None = of(SchedulerConfig, "interactive_max_wait_s", _FAIRNESS)
    batch_max_wait_s: float | None = of(SchedulerConfig, "batch_max_wait_s", _FAIRNESS)
    ageing_s: float | None = of(SchedulerConfig, "ageing_s", _FAIRNESS)
    batch_share: float | None = of(SchedulerConfig, "batch_share", _FAIRNESS)
    tenant_share: float | None = of(SchedulerConfig, "tenant_share", _FAIRNESS)
    long_share: float | None = of(SchedulerConfig, "long_share", _FAIRNESS)
    long_prompt_tokens: int | None = of(SchedulerConfig, "long_prompt_tokens", _FAIRNESS)
    long_output_tokens: int | None = of(SchedulerConfig, "long_output_tokens", _FAIRNESS)
    preempt_after_s: float | None = of(SchedulerConfig, "preempt_after_s", _FAIRNESS)
    max_prompt_ms: float | None = of(SchedulerConfig, "max_prompt_ms", _FAIRNESS)

    interactive_ttft_ms: float | None = of(SchedulerConfig, "interactive_ttft_ms", _TARGETS)
    interactive_tpot_ms: float | None = of(SchedulerConfig, "interactive_tpot_ms", _TARGETS)
    batch_ttft_ms: float | None = of(SchedulerConfig, "batch_ttft_ms", _TARGETS)
    batch_tpot_ms: float | None = of(SchedulerConfig, "batch_tpot_ms", _TARGETS)

    max_body_bytes: int | None = of(GatewayConfig, "max_body_bytes", _LIMITS)
    max_body_values: int | None = of(GatewayConfig, "max_body_values", _LIMITS)
    max_messages: int | None = of(GatewayConfig, "max_messages", _LIMITS)
    max_choices: int | None = of(GatewayConfig, "max_choices", _LIMITS)
    max_stop_strings: int | None = of(GatewayConfig, "max_stop_strings", _LIMITS)
    max_stop_string_chars: int | None = of(GatewayConfig, "max_stop_string_chars", _LIMITS)
    max_bias_entries: int | None = of(GatewayConfig, "max_bias_entries", _LIMITS)
    max_grammar_chars: int | None = of(GatewayConfig, "max_grammar_chars", _LIMITS)
    body_timeout_s: float | None = of(GatewayConfig, "body_timeout_s", _LIMITS)
    request_timeout_s: float | None = of(GatewayConfig, "request_timeout_s", _LIMITS)
    chat_template_timeout_s: float | None = of(GatewayConfig, "chat_template_timeout_s", _LIMITS)

    def __post_init__(self) -> None:
        # Without arguments super() fails in a class that slots=True has made anew.
        ServicesConfig.__post_init__(self)
        for name in ("http_port", "grpc_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise ValueError(f"{flag_of(name)} must be from 0 to 65535")
        if self.http_port == self.grpc_port != 0:
            raise ValueError(f"--http-port and --grpc-port are both {self.http_port}")
