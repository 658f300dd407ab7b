"""From a base URL to the address of the gateway's gRPC server."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from dspark.cli.failure import CliError
from dspark.cli.supervision.ports import join
from dspark.client.target import checked_target
from dspark.errors import InvalidArgument

_TIMEOUT_S = 5.0


def grpc_target(base_url: str) -> str:
    """``host:port`` or ``unix:/path`` for host:port, grpc://host:port, unix:/path, http(s)://host:port.

    An HTTP server is asked for its gRPC port. Raises CliError if it has none or does not answer.
    """
    if base_url.lower().startswith(("http://", "https://")):
        return _ask(base_url.rstrip("/"))
    try:
        return checked_target(base_url)
    except InvalidArgument:
        raise _no_address(base_url) from None


def _no_address(base_url: str) -> CliError:
    forms = "host:port, grpc://host:port or http://host:port"
    return CliError(f"--base-url {base_url}: give {forms}", exit_code=2)


def _ask(base_url: str) -> str:
    host = _host(base_url)
    url = base_url.removesuffix("/v1") + "/v1/models"
    try:
        response = httpx.get(url, timeout=_TIMEOUT_S)
        response.raise_for_status()
        port = int(response.json()["data"][0]["dspark"]["grpc_port"])
    except httpx.HTTPStatusError as error:
        raise CliError(
            f"{url} answers {error.response.status_code}: is it a DSpark server?"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CliError(f"{url} does not answer: {error}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CliError(f"{url} does not tell a gRPC port: it is no DSpark server") from error
    return join(host, port)


def _host(base_url: str) -> str:
    try:
        host = urlsplit(base_url).hostname
    except ValueError:
        host = None
    if not host:
        raise _no_address(base_url)
    return host
