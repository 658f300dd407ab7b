"""Where a client may connect to."""

from __future__ import annotations

from typing import Any

from dspark.errors import InvalidArgument


def checked_target(target: Any) -> str:
    """The gRPC address; raises InvalidArgument that names target for what is none."""
    if not isinstance(target, str) or not target:
        raise InvalidArgument("target", "must be an address: host:port or unix:/path")
    if target.startswith(("http://", "https://")):
        problem = f"{target} is an HTTP address; give the gRPC one, as host:port or unix:/path"
        raise InvalidArgument("target", problem)
    return target
