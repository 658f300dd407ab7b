"""What ``dspark serve`` does not take from the environment."""

from __future__ import annotations

import argparse

import pytest

from dspark.cli import serve
from dspark.cli.failure import CliError
from dspark.cli.supervision.spec import DEPLOYMENT_VARIABLES


@pytest.fixture
def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_parser(parser)
    return parser.parse_args([])


@pytest.mark.parametrize("variable", DEPLOYMENT_VARIABLES)
def test_settings_of_services_that_start_one_by_one_are_refused_by_name(
    variable: str, arguments: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "9100")
    with pytest.raises(CliError, match=f"^{variable}: ") as caught:
        serve.run(arguments)
    assert caught.value.exit_code == 2


def test_those_that_ask_for_nothing_are_let_pass(
    arguments: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def goes_on(*_: object) -> None:
        raise InterruptedError

    for variable, nothing in DEPLOYMENT_VARIABLES.items():
        monkeypatch.setenv(variable, nothing)
    monkeypatch.setattr(serve, "from_namespace", goes_on)
    with pytest.raises(InterruptedError):
        serve.run(arguments)
