"""Settings of the gateway process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dspark.config import setting
from dspark.gateway.body_limits import BodyLimits
from dspark.gateway.parsing.call_formats import CHOICES as TOOL_PARSERS
from dspark.gateway.parsing.reasoning_parsers import CHOICES as REASONING_PARSERS
from dspark.gateway.request_limits import RequestLimits
from dspark.service_addresses import check_targets
from dspark.telemetry.logs import LogSettings
from dspark.transport_security.settings import (
    ServerTransport,
    TransportSettings,
    check_all_or_none,
)
from dspark.transport_security.tls_files import TlsFiles

_AT_LEAST_ONE = (
    "max_body_bytes",
    "max_body_values",
    "max_stop_strings",
    "max_stop_string_chars",
    "max_choices",
    "max_bias_entries",
    "max_grammar_chars",
    "max_messages",
)


@dataclass(frozen=True)
class GatewayConfig(TransportSettings, LogSettings):
    """Addresses are ``host:port`` or ``unix:/path``; port 0 picks a free one."""

    model_dir: str = field(metadata={"help": "folder with tokenizer.json and the chat template"})
    served_model_name: str = setting("", "name that clients ask for; empty: the folder's name")
    scheduler: tuple[str, ...] = setting(
        ("127.0.0.1:50052",),
        "addresses of schedulers, with commas; dns:///name:port is all of a name",
    )
    http: str = setting("127.0.0.1:8000", "address of the HTTP API")
    grpc: str = setting("127.0.0.1:50051", "address of the gRPC API")
    http_tls_cert: str = setting(
        "", "PEM file of the certificate for clients, HTTP and gRPC; empty: no TLS"
    )
    http_tls_key: str = setting("", "PEM file of that certificate's key; empty: no TLS")
    api_keys_file: str = setting("", "file of API keys; empty: anybody may call")
    metrics_need_key: bool = setting(False, "whether /metrics needs an API key too")
    max_body_bytes: int = setting(
        8 * 1024 * 1024, "size of the largest HTTP request body or gRPC message"
    )
    max_body_values: int = setting(
        500_000, "most values of a request's body, or token ids of a gRPC message"
    )
    max_stop_strings: int = setting(64, "most stop strings of a request")
    max_stop_string_chars: int = setting(1024, "characters of the longest stop string")
    max_choices: int = setting(128, "most choices of a request: its prompts times n")
    max_bias_entries: int = setting(
        4096, "most entries of logit_bias and other objects, bad_words and stop_token_ids"
    )
    max_grammar_chars: int = setting(
        256 * 1024,
        "characters of the largest grammar, JSON schema or tool definitions of a request",
    )
    max_messages: int = setting(4096, "messages of a conversation, and its tools, at most")
    body_timeout_s: float = setting(60.0, "time for a request's body to come; 0: no limit")
    tool_parser: str = setting(
        "auto", "format of tool calls; auto: by the model's chat template", choices=TOOL_PARSERS
    )
    reasoning_parser: str = setting(
        "none", "how the model marks its reasoning", choices=REASONING_PARSERS
    )
    allow_chat_template: bool = setting(
        False, "whether requests may bring a chat template, which is a program"
    )
    chat_template_timeout_s: float = setting(2.0, "time that a chat template gets")
    request_timeout_s: float = setting(3600.0, "longest life of a request; 0: no limit")
    drain_pause_s: float = setting(0.0, "time after SIGTERM in which new requests are still served")
    drain_s: float = setting(30.0, "time that running requests get to end after SIGTERM")

    def __post_init__(self) -> None:
        self.check_transport()
        self.check_logs()
        check_all_or_none(http_tls_cert=self.http_tls_cert, http_tls_key=self.http_tls_key)
        if self.metrics_need_key and not self.api_keys_file:
            raise ValueError("--metrics-need-key needs --api-keys-file")
        if not self.scheduler:
            raise ValueError("scheduler must name at least one address")
        check_targets(scheduler=self.scheduler)
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 < self.chat_template_timeout_s < float("inf"):
            raise ValueError("chat_template_timeout_s must be above 0 seconds")
        for name, choices in (
            ("tool_parser", TOOL_PARSERS),
            ("reasoning_parser", REASONING_PARSERS),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}")
        for name in ("body_timeout_s", "request_timeout_s", "drain_pause_s", "drain_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be 0 or more seconds")

    @property
    def http_tls(self) -> TlsFiles | None:
        """The files of TLS towards clients; None means without."""
        return TlsFiles(self.http_tls_cert, self.http_tls_key) if self.http_tls_cert else None

    @property
    def public_transport(self) -> ServerTransport:
        """How clients reach the gRPC server."""
        return ServerTransport(
            tls=self.http_tls,
            max_message_bytes=self.max_body_bytes,
            health_port=self.health_port,
            is_public=True,
        )

    @property
    def body_limits(self) -> BodyLimits:
        """How large the body of an HTTP request may be, and how long it may take to come."""
        return BodyLimits(self.max_body_bytes, self.max_body_values, self.body_timeout_s or None)

    @property
    def request_limits(self) -> RequestLimits:
        """How large the parts of a request may be."""
        return RequestLimits(
            max_choices=self.max_choices,
            max_stop_strings=self.max_stop_strings,
            max_bias_entries=self.max_bias_entries,
            max_grammar_chars=self.max_grammar_chars,
            max_messages=self.max_messages,
        )

    @property
    def model_name(self) -> str:
        return self.served_model_name or Path(self.model_dir).resolve().name
