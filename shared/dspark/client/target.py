"""Where a client may connect to."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from dspark.errors import InvalidArgument

SECURE_SCHEME = "grpcs://"
_FORMS = "host:port or unix:/path"
# What gRPC resolves by itself: https://github.com/grpc/grpc/blob/master/doc/naming.md
_SCHEMES = ("unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:")


def checked_target(target: Any) -> str:
    """The gRPC address without its grpc:// or grpcs://; raises InvalidArgument that names target.

    A host needs its port: without one gRPC takes that of HTTPS.
    """
    if not isinstance(target, str):
        raise InvalidArgument("target", f"must be an address: {_FORMS}")
    if target.lower().startswith(("http://", "https://")):
        raise InvalidArgument("target", f"{target} is an HTTP address; give the gRPC one: {_FORMS}")
    if target.startswith(_SCHEMES):
        return target
    address = target.removeprefix("grpc://").removeprefix(SECURE_SCHEME).rstrip("/")
    if not _is_host_and_port(address):
        raise InvalidArgument("target", f"{target!r} is no address; give {_FORMS}")
    return address


def _is_host_and_port(address: str) -> bool:
    try:
        parts = urlsplit(f"//{address}")
        has_both = bool(parts.hostname) and parts.port is not None
    except ValueError:
        return False
    return has_both and parts.netloc == address and not any(map(str.isspace, address))
