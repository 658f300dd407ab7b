"""GET /metrics for services that have no HTTP server of their own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server

from dspark.config import SettingError


class MetricsEndpoint:
    """Answers from a thread of its own until it is closed; port 0 means none at all."""

    def __init__(self, registry: CollectorRegistry, port: int) -> None:
        """Raises SettingError when the port cannot be listened on."""
        self._server = None
        if not port:
            return
        try:
            self._server, self._thread = start_http_server(port, registry=registry)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SettingError(f"--metrics-port {port}: cannot listen: {reason}") from error

    def close(self) -> None:
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = None
