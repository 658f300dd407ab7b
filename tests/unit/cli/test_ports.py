"""Ports are claimed before anything is loaded."""

from __future__ import annotations

import socket

import pytest

from dspark.cli.failure import CliError
from dspark.cli.supervision.ports import claim_port, join


def test_a_free_port_is_kept_and_zero_picks_one() -> None:
    port = claim_port("127.0.0.1", 0, "--http-port")
    assert port > 0
    assert claim_port("127.0.0.1", port, "--http-port") == port


@pytest.mark.parametrize("shared", [False, True])
def test_a_taken_port_names_the_flag(shared: bool) -> None:
    with socket.socket() as taken:
        if shared:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CliError, match=f"port {port} .* in use.*--grpc-port") as caught:
            claim_port("127.0.0.1", port, "--grpc-port")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine_names_the_host(host: str) -> None:
    with pytest.raises(CliError, match=f"--host {host}"):
        claim_port(host, 0, "--http-port")


def test_join() -> None:
    assert join("127.0.0.1", 1) == "127.0.0.1:1"
    assert join("::1", 1) == "[::1]:1"
