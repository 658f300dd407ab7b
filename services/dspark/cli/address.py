"""From a base URL to the address of the gateway's gRPC server."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from dspark.cli.client_access import https_context
from dspark.cli.failure import CliError
from dspark.cli.supervision.ports import join
from dspark.client.access import API_KEY_VARIABLE, call_metadata
from dspark.client.target import SECURE_SCHEME, checked_target
from dspark.errors import InvalidArgument
from dspark.transport_security.tls_files import TlsFiles

_TIMEOUT_S = 5.0


def grpc_target(base_url: str, tls: TlsFiles | None = None) -> str:
    """What a client takes: ``host:port``, ``unix:/path``, or ``grpcs://host:port`` for TLS.

    An HTTP server is asked for its gRPC port. Raises CliError if it has none or does not answer.
    """
    if base_url.lower().startswith(("http://", "https://")):
        return _ask(base_url.rstrip("/"), tls)
    try:
        checked = checked_target(base_url)
        return base_url if base_url.startswith(SECURE_SCHEME) else checked
    except InvalidArgument:
        raise _no_address(base_url) from None


def _no_address(base_url: str) -> CliError:
    forms = "host:port, grpc://host:port or http://host:port"
    return CliError(f"--base-url {base_url}: give {forms}", exit_code=2)


def _ask(base_url: str, tls: TlsFiles | None) -> str:
    host = _host(base_url)
    is_secure = base_url.lower().startswith("https://")
    url = base_url.removesuffix("/v1") + "/v1/models"
    try:
        response = httpx.get(
            url,
            timeout=_TIMEOUT_S,
            headers=dict(call_metadata(None)),
            verify=https_context(tls) if is_secure else False,
        )
        response.raise_for_status()
        port = int(response.json()["data"][0]["dspark"]["grpc_port"])
    except httpx.HTTPStatusError as error:
        raise CliError(
            f"{url} answers {error.response.status_code}: {_reason(error.response)}"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CliError(f"{url} does not answer: {error}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CliError(f"{url} does not tell a gRPC port: it is no DSpark server") from error
    return f"{SECURE_SCHEME if is_secure else ''}{join(host, port)}"


def _reason(response: httpx.Response) -> str:
    """What a DSpark server says of its refusal."""
    try:
        message = str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "is it a DSpark server?"
    return f"{message} ({API_KEY_VARIABLE})" if response.status_code == 401 else message


def _host(base_url: str) -> str:
    try:
        host = urlsplit(base_url).hostname
    except ValueError:
        host = None
    if not host:
        raise _no_address(base_url)
    return host
