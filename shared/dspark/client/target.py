"""Where a client may connect to."""

from __future__ import annotations

from dspark.errors import InvalidArgument


def checked_target(target: str) -> str:
    """The gRPC address; raises InvalidArgument that names target for the URL of an HTTP server."""
    if target.startswith(("http://", "https://")):
        problem = f"{target} is an HTTP address; give the gRPC one, as host:port or unix:/path"
        raise InvalidArgument("target", problem)
    return target
