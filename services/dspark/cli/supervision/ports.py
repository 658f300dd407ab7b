"""Finds out before anything is loaded whether the ports can be had."""

from __future__ import annotations

import errno
import socket

from dspark.cli.failure import CliError

_USAGE = 2


def claim_port(host: str, port: int, flag: str) -> int:
    """The port, or a free one for 0; raises CliError that names ``flag`` if it cannot be bound."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CliError(f"--host {host}: {error.strerror or error}", _USAGE) from error
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            # Only listening fails when another process listens with SO_REUSEPORT, as gRPC does.
            probe.listen()
        except OSError as error:
            raise CliError(_problem(host, port, flag, error), _USAGE) from error
        return int(probe.getsockname()[1])


def join(host: str, port: int) -> str:
    """``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _problem(host: str, port: int, flag: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another one with {flag}"
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by this user; choose another one with {flag}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host}: this machine has no such address"
    return f"cannot listen on {host} port {port}: {error.strerror}"
