"""Settings of the gateway process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dspark.config import setting


@dataclass(frozen=True)
class GatewayConfig:
    """Addresses are ``host:port`` or ``unix:/path``; port 0 picks a free one."""

    model_dir: str = field(metadata={"help": "folder with tokenizer.json and the chat template"})
    served_model_name: str = setting("", "name clients ask for; the folder's name if empty")
    scheduler: tuple[str, ...] = setting(
        ("127.0.0.1:50052",),
        "addresses of schedulers, with commas; dns:///name:port is all of a name",
    )
    http: str = setting("127.0.0.1:8000", "address of the HTTP API")
    grpc: str = setting("127.0.0.1:50051", "address of the gRPC API")
    max_body_bytes: int = setting(8 * 1024 * 1024, "largest HTTP request body")
    max_stop_strings: int = setting(64, "most stop strings of a request")
    max_stop_string_chars: int = setting(1024, "longest stop string")
    request_timeout_s: float = setting(3600.0, "longest life of a request; 0 means no limit")
    drain_pause_s: float = setting(0.0, "time after SIGTERM in which new requests are still served")
    drain_s: float = setting(30.0, "time that running requests get to end after SIGTERM")

    def __post_init__(self) -> None:
        if not self.scheduler:
            raise ValueError("scheduler must name at least one address")
        for name in ("max_body_bytes", "max_stop_strings", "max_stop_string_chars"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("request_timeout_s", "drain_pause_s", "drain_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be 0 or more seconds")

    @property
    def model_name(self) -> str:
        return self.served_model_name or Path(self.model_dir).resolve().name
