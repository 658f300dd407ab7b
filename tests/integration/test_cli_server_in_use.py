"""Flags of client commands that a running server does not heed are refused, never ignored."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dspark.cli import connection
from dspark.cli.connection import add_connection_arguments, serving_target
from dspark.cli.failure import CliError
from dspark.cli.progress import Progress
from harness.gateway_stack import MODEL, GatewayStack, gateway_stack


@pytest.fixture
async def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayStack]:
    """The gateway that answers at the default address."""
    async with gateway_stack(tmp_path / "served") as running:
        monkeypatch.setattr(connection, "DEFAULT_TARGET", running.grpc_target)
        yield running


async def target_for(*flags: str) -> str:
    parser = argparse.ArgumentParser()
    add_connection_arguments(parser)
    async with serving_target(parser.parse_args(flags), Progress(quiet=True)) as target:
        return target


async def refusal(*flags: str) -> str:
    with pytest.raises(CliError) as caught:
        await target_for(*flags)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def naming(stack: GatewayStack, is_named: bool) -> tuple[str, ...]:
    return ("--base-url", stack.grpc_target) if is_named else ()


@pytest.mark.parametrize("is_named", [False, True])
async def test_the_model_must_be_the_one_that_is_served(
    stack: GatewayStack, is_named: bool
) -> None:
    server = naming(stack, is_named)
    error = await refusal(*server, "--model", "gpt-9")
    assert "gpt-9" in error
    assert MODEL in error
    assert await target_for(*server, "--model", MODEL) == stack.grpc_target
    assert await target_for(*server) == stack.grpc_target


async def test_a_directory_stands_for_the_name_it_is_served_under(
    stack: GatewayStack, tmp_path: Path
) -> None:
    for name in (MODEL, "other"):
        (tmp_path / name).mkdir()
    assert await target_for("--model", str(tmp_path / MODEL)) == stack.grpc_target
    assert MODEL in await refusal("--model", str(tmp_path / "other"))


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize(
    "flag", ["--kv-tokens=64", "--policy=off", "--sources=suffix", "--redis-url=redis://h"]
)
async def test_a_setting_of_services_that_are_not_started_is_refused(
    stack: GatewayStack, is_named: bool, flag: str
) -> None:
    error = await refusal(*naming(stack, is_named), flag)
    assert flag.partition("=")[0] in error
    assert stack.grpc_target in error


async def test_settings_in_the_environment_are_for_servers_that_start(
    stack: GatewayStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSPARK_KV_TOKENS", "64")
    monkeypatch.setenv("DSPARK_MODEL", "gpt-9")
    assert await target_for() == stack.grpc_target
