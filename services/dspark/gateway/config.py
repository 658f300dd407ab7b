"""Settings of the gateway process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def _setting(help_text: str, **default: Any) -> Any:
    return field(metadata={"help": help_text}, **default)


@dataclass(frozen=True)
class GatewayConfig:
    """Addresses are ``host:port`` or ``unix:/path``; port 0 picks a free one."""

    model_dir: str = _setting("folder with tokenizer.json and the chat template")
    served_model_name: str = _setting(
        "name clients ask for; the folder's name if empty", default=""
    )
    scheduler: str = _setting("address of the scheduler", default="127.0.0.1:50052")
    http: str = _setting("address of the HTTP API", default="127.0.0.1:8000")
    grpc: str = _setting("address of the gRPC API", default="127.0.0.1:50051")
    max_body_bytes: int = _setting("largest HTTP request body", default=8 * 1024 * 1024)
    max_stop_strings: int = _setting("most stop strings of a request", default=64)
    max_stop_string_chars: int = _setting("longest stop string", default=1024)
    request_timeout_s: float = _setting(
        "longest life of a request; 0 means no limit", default=3600.0
    )
    drain_pause_s: float = _setting(
        "time after SIGTERM in which new requests are still served", default=0.0
    )
    drain_s: float = _setting("time that running requests get to end after SIGTERM", default=30.0)

    def __post_init__(self) -> None:
        for name in ("max_body_bytes", "max_stop_strings", "max_stop_string_chars"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("request_timeout_s", "drain_pause_s", "drain_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be 0 or more seconds")

    @property
    def model_name(self) -> str:
        return self.served_model_name or Path(self.model_dir).resolve().name
