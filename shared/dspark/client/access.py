"""How a client proves who it is, and how it knows the server."""

from __future__ import annotations

import os

from dspark.client.target import SECURE_SCHEME
from dspark.errors import InvalidArgument
from dspark.transport_security.tls_files import TlsFiles

API_KEY_VARIABLE = "DSPARK_API_KEY"


def call_metadata(api_key: str | None) -> tuple[tuple[str, str], ...]:
    """What each call carries: the key, by default that of DSPARK_API_KEY.

    Raises InvalidArgument, without the key, for one that cannot be sent.
    """
    key = os.environ.get(API_KEY_VARIABLE, "") if api_key is None else api_key
    if not key:
        return ()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InvalidArgument("api_key", "may have printable ASCII characters only")
    return (("authorization", f"Bearer {key}"),)


def tls_of(target: str, tls: TlsFiles | bool | None) -> TlsFiles | None:
    """The files for a connection; those of the system where the target or ``tls`` says no more."""
    if isinstance(tls, TlsFiles):
        return tls
    return TlsFiles() if tls or (tls is None and target.startswith(SECURE_SCHEME)) else None
