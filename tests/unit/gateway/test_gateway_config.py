"""Settings and addresses that cannot work are refused with a clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dspark.config import parse, to_arguments
from dspark.gateway.config import GatewayConfig
from dspark.gateway.server import AddressError, listen


def test_the_command_line_makes_an_equal_config() -> None:
    config = GatewayConfig("models/m", http="unix:/tmp/h", max_body_bytes=10, drain_s=1.5)
    assert parse(GatewayConfig, "", to_arguments(config)) == config


def test_the_model_is_named_after_its_folder_unless_named() -> None:
    assert GatewayConfig("models/tiny/").model_name == "tiny"
    assert GatewayConfig("models/tiny", served_model_name="m").model_name == "m"


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_body_bytes", 0), ("max_stop_strings", -1), ("drain_s", -1.0), ("drain_s", float("nan"))],
)
def test_settings_out_of_range_are_named(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        GatewayConfig("m", **{field: value})


@pytest.mark.parametrize("address", ["8000", ":8000", "host:", "host:x", "", "127.0.0.1:70000"])
def test_a_bad_address_is_named(address: str) -> None:
    with pytest.raises(AddressError) as caught:
        listen(address)
    assert address in str(caught.value)


def test_a_stale_unix_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    listen(address).close()
    with listen(address):
        with pytest.raises(AddressError, match="a server answers there"):
            listen(address)


def test_who_comes_second_to_a_port_is_told_though_nothing_is_served_there_yet() -> None:
    with listen("127.0.0.1:0") as first:
        address = f"127.0.0.1:{first.getsockname()[1]}"
        with pytest.raises(AddressError, match="in use"):
            listen(address)


def test_a_unix_socket_in_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(AddressError, match="No such file"):
        listen(f"unix:{tmp_path / 'missing' / 'socket'}")
