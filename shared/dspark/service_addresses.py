"""Where the replicas of a service are: addresses that stay, names whose addresses come and go."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

log = logging.getLogger(__name__)

DNS = "dns:///"
UNIX = "unix:"
MAX_PORT = 65535
RESOLVE_INTERVAL_S = 5.0
# While no address is known, somebody waits for one.
RETRY_INTERVAL_S = 0.5

Resolve = Callable[[str, str], Awaitable[list[str]]]


def check_targets(**targets: Sequence[str]) -> None:
    """Raises ValueError for what is no ``host:port``, ``dns:///host:port`` or ``unix:/path``."""
    for name, given in targets.items():
        for target in given:
            if not _is_target(target):
                forms = f"use host:port, {DNS}host:port or unix:/path"
                raise ValueError(f"{name}: {target!r} is no address; {forms}")


def _is_target(target: str) -> bool:
    if target.startswith(UNIX):
        return len(target) > len(UNIX)
    host, _, port = target.removeprefix(DNS).rpartition(":")
    return bool(host) and "/" not in host and port.isdecimal() and 0 < int(port) <= MAX_PORT


async def resolve(host: str, port: str) -> list[str]:
    """The addresses of a name as ``host:port``; raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    hosts = {str(sockaddr[0]) for *_, sockaddr in found}
    return sorted(f"[{h}]:{port}" if ":" in h else f"{h}:{port}" for h in hosts)


async def watch_addresses(
    targets: Sequence[str], resolve: Resolve = resolve
) -> AsyncIterator[tuple[str, ...]]:
    """All addresses behind the targets, after each look at them.

    ``dns:///host:port`` stands for every address of the host, anything else for itself. What a name
    had is kept while it cannot be resolved.
    """
    names = {target: _Name(target) for target in targets if target.startswith(DNS)}
    while True:
        for name in names.values():
            await name.look_up(resolve)
        found = (names[t].addresses if t in names else [t] for t in targets)
        addresses = tuple(dict.fromkeys(address for group in found for address in group))
        yield addresses
        if not names:
            await asyncio.Event().wait()
        await asyncio.sleep(RESOLVE_INTERVAL_S if addresses else RETRY_INTERVAL_S)


class _Name:
    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.removeprefix(DNS).rpartition(":")
        self._is_resolved = True
        self.addresses: list[str] = []

    async def look_up(self, resolve: Resolve) -> None:
        try:
            self.addresses = await resolve(self._host, self._port)
        except OSError as error:
            if self._is_resolved:
                log.warning("%s cannot be resolved: %s", self._host, error)
            self._is_resolved = False
        else:
            self._is_resolved = True
