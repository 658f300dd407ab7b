"""From a base URL to the address of the gateway's gRPC server."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from dspark.cli.failure import CliError
from dspark.cli.supervision.ports import join

_TIMEOUT_S = 5.0


def grpc_target(base_url: str) -> str:
    """``host:port`` or ``unix:/path`` for host:port, grpc://host:port, unix:/path, http(s)://host:port.

    An HTTP server is asked for its gRPC port. Raises CliError if it has none or does not answer.
    """
    if base_url.startswith("unix:"):
        return base_url
    if base_url.startswith(("http://", "https://")):
        return _ask(base_url.rstrip("/"))
    target = base_url.removeprefix("grpc://").rstrip("/")
    if not _is_host_and_port(target):
        raise CliError(
            f"--base-url {base_url}: give host:port, grpc://host:port or http://host:port",
            exit_code=2,
        )
    return target


def _is_host_and_port(target: str) -> bool:
    try:
        parts = urlsplit(f"//{target}")
        return bool(parts.hostname) and parts.port is not None and not parts.path
    except ValueError:
        return False


def _ask(base_url: str) -> str:
    url = base_url.removesuffix("/v1") + "/v1/models"
    try:
        response = httpx.get(url, timeout=_TIMEOUT_S)
        response.raise_for_status()
        port = int(response.json()["data"][0]["dspark"]["grpc_port"])
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CliError(f"{url} does not answer: {error}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CliError(f"{url} does not tell a gRPC port: it is no DSpark server") from error
    return join(urlsplit(base_url).hostname or "127.0.0.1", port)
