"""The end of a client."""

from __future__ import annotations

from dspark.errors import DSparkError


class ClientClosed(DSparkError):
    """A call of a client that was closed, before the call or while it ran. Never on the wire."""

    reason = "CLIENT_CLOSED"
    code = "FAILED_PRECONDITION"

    def __init__(self) -> None:
        super().__init__("the client is closed; make a new one")
