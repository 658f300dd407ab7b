from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import pytest

from dspark import config


@dataclass(frozen=True)
class Settings:
    """One field of every supported type."""

    model: str = field(metadata={"help": "what to serve"})
    port: int = 50051
    share: float = 0.5
    redis_url: str | None = None
    limit: int | None = None
    reflection: bool = True
    sources: tuple[str, ...] = ("suffix", "recycle")
    exactness: str = field(default="strict", metadata={"choices": ("strict", "fast")})

    def __post_init__(self) -> None:
        if self.port < 0:
            raise ValueError("port must not be negative")


@dataclass(frozen=True)
class Shown:
    """Fields with and without a default to show."""

    model: str = field(metadata={"help": "what to serve"})
    limit: int | None = config.setting(None, "no limit if unset")
    share: str = config.setting("5%", "share of time")
    sources: tuple[str, ...] = config.setting(("suffix", "recycle"), "ways to guess")


@dataclass(frozen=True)
class Grouped:
    """A field under a heading, with another flag for it."""

    listen: str = config.setting("", "where")
    max_waiting: int = config.setting(
        8, "requests", group="queues", aliases=("--max-queued-requests",)
    )


def parse(argv: list[str], environ: dict[str, str] | None = None) -> Settings:
    parser = argparse.ArgumentParser()
    config.add_arguments(parser, Settings)
    return config.from_namespace(Settings, parser.parse_args(argv), environ or {})


def test_help_shows_defaults() -> None:
    parser = argparse.ArgumentParser()
    config.add_arguments(parser, Shown)
    text = " ".join(parser.format_help().split())
    assert "share of time (default 5%)" in text
    assert "ways to guess (default suffix,recycle)" in text
    assert "what to serve (required) --" in text
    assert "no limit if unset --" in text


def test_help_shows_units_by_the_end_of_a_name() -> None:
    assert config.with_default("a wait", "wait_s", 0.5) == "a wait (default 0.5 seconds)"
    assert config.with_default("a wait", "wait_ms", 20.0) == "a wait (default 20 ms)"
    assert config.with_default("a size", "body_bytes", 1024) == "a size (default 1024 bytes)"
    assert config.with_default("a switch", "reflection", False) == "a switch (default no)"


def test_flags_stand_under_the_heading_of_their_group_with_further_names() -> None:
    parser = argparse.ArgumentParser()
    config.add_arguments(parser, Grouped)
    (group,) = [each for each in parser._action_groups if each.title == "queues"]
    assert [action.dest for action in group._group_actions] == ["max_waiting"]
    assert parser.parse_args(["--max-queued-requests", "3"]).max_waiting == 3


def test_defaults_come_from_the_class() -> None:
    assert parse(["--model", "m"]) == Settings("m")


def test_every_type_parses_from_flags() -> None:
    argv = "--model m --port 1 --share 0.25 --redis-url redis://h --limit 7 --no-reflection"
    argv += " --sources a,,b, --exactness fast"
    expected = Settings("m", 1, 0.25, "redis://h", 7, False, ("a", "b"), "fast")
    assert parse(argv.split()) == expected


def test_every_type_parses_from_the_environment() -> None:
    environ = {
        "DSPARK_MODEL": "m",
        "DSPARK_PORT": "1",
        "DSPARK_SHARE": "0.25",
        "DSPARK_REDIS_URL": "redis://h",
        "DSPARK_LIMIT": "7",
        "DSPARK_REFLECTION": "off",
        "DSPARK_SOURCES": "a, b",
        "DSPARK_EXACTNESS": "fast",
    }
    expected = Settings("m", 1, 0.25, "redis://h", 7, False, ("a", "b"), "fast")
    assert parse([], environ) == expected


def test_a_flag_wins_over_the_environment() -> None:
    assert parse(["--model", "m", "--port", "2"], {"DSPARK_PORT": "1"}).port == 2


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"DSPARK_PORT": "many"}, "DSPARK_PORT"),
        ({"DSPARK_SHARE": "half"}, "DSPARK_SHARE"),
        ({"DSPARK_SHARE": "nan"}, "DSPARK_SHARE='nan': 'nan' is not a finite number"),
        ({"DSPARK_LIMIT": ""}, "DSPARK_LIMIT"),
        ({"DSPARK_REFLECTION": "maybe"}, "DSPARK_REFLECTION"),
        ({"DSPARK_EXACTNESS": "sloppy"}, "DSPARK_EXACTNESS"),
        ({"DSPARK_PORT": "-1"}, "--port must not be negative"),
    ],
)
def test_a_bad_variable_is_an_error_that_names_it(environ: dict[str, str], named: str) -> None:
    with pytest.raises(config.SettingError, match=named):
        parse(["--model", "m"], environ)


@pytest.mark.parametrize(
    "argv", [["--port", "many"], ["--share", "inf"], ["--exactness", "sloppy"], ["--unknown"]]
)
def test_a_bad_flag_is_an_error_that_names_it(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--model", "m", *argv])
    assert argv[0] in capsys.readouterr().err


def test_a_missing_required_setting_names_flag_and_variable() -> None:
    with pytest.raises(config.SettingError, match=r"--model \(or DSPARK_MODEL\) is required"):
        parse([])


@pytest.mark.parametrize(
    "settings",
    [
        Settings("m"),
        Settings("m", 1, 0.25, "redis://h", 7, False, ("a", "b"), "fast"),
        Settings("-m with spaces", sources=()),
        Settings("m", limit=0),
    ],
)
def test_to_arguments_makes_an_equal_config(settings: Settings) -> None:
    assert parse(config.to_arguments(settings)) == settings


def test_parse_reads_the_command_line_given() -> None:
    assert config.parse(Settings, "a service", ["--model", "m", "--port", "9"]).port == 9


@pytest.mark.parametrize(
    ("argv", "named"),
    [([], "--model"), (["--model", "m", "--port", "-1"], "port must not be negative")],
)
def test_a_service_with_a_bad_setting_ends_as_with_an_unknown_flag(
    argv: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        config.parse(Settings, "a service", argv)
    assert caught.value.code == 2
    assert named in capsys.readouterr().err
