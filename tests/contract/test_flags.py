"""Every flag says what it is, in which unit, and what holds without it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from dspark.cli.__main__ import build_parser
from dspark.cli.number_flags import count, counts, number_above_0, number_from_0
from dspark.cli.service_settings import SERVICES
from dspark.config import add_arguments

# What a number counts or measures, in the words of help texts or by a metavar of its own.
_UNITS = re.compile(
    r"\b(tokens?|seconds|ms|bytes|characters|entries|requests|choices|verifiers|ports?|threads"
    r"|blocks|rows|steps|rounds|layers|grammars|sequences|share|probability|gain|calls|failures"
    r"|strings|messages|sources|nodes|contexts|times|runs|seed|temperature|levels|starts|texts|tasks)\b",
    re.IGNORECASE,
)
_WITHOUT = re.compile(r"\b(default|unset|empty|required|may be given several times)\b")
_NUMBERS = ("N", "X")


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and those of all its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                yield from commands(each)


def service_parsers() -> Iterator[argparse.ArgumentParser]:
    for name, service in SERVICES.items():
        parser = argparse.ArgumentParser(prog=f"python -m dspark.{name}")
        add_arguments(parser, service)
        yield parser


FLAGS = {
    f"{parser.prog} {(action.option_strings or [action.dest])[0]}": action
    for parser in (*commands(build_parser()), *service_parsers())
    for action in parser._actions
    if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
}


def test_a_flag_says_what_it_is() -> None:
    assert len(FLAGS) > 300
    assert not [name for name, flag in FLAGS.items() if not (flag.help or "").strip()]


def test_a_flag_that_may_be_left_out_says_what_holds_without_it() -> None:
    takes_a_value = {name: flag for name, flag in FLAGS.items() if flag.nargs != 0}
    optional = {name: f for name, f in takes_a_value.items() if f.option_strings and not f.required}
    assert not [name for name, flag in optional.items() if not _WITHOUT.search(str(flag.help))]


def test_a_number_has_a_unit() -> None:
    numbers = {
        name: flag
        for name, flag in FLAGS.items()
        if flag.type in (int, float, count, counts, number_from_0, number_above_0)
        or flag.metavar in _NUMBERS
    }
    assert len(numbers) > 100
    texts = {name: f"{flag.help} {flag.metavar}" for name, flag in numbers.items()}
    assert not [name for name, text in texts.items() if not _UNITS.search(text)]
