"""Flags for sampling and speculation, shared by ``generate`` and ``chat``."""

from __future__ import annotations

import argparse

from dspark.cli.number_flags import number_above_0
from dspark.client import GenerateOptions

_DEFAULT_MAX_TOKENS = 512


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags that are not given stay at the server's defaults, but for ``--max-tokens``."""
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--max-tokens",
        type=int,
        default=_DEFAULT_MAX_TOKENS,
        help=f"tokens to generate at most (default {_DEFAULT_MAX_TOKENS})",
    )
    group.add_argument(
        "--temperature", type=float, help="temperature of sampling; 0 is greedy; default: 1"
    )
    group.add_argument(
        "--top-k", type=int, help="draw from the k likeliest tokens; default: 0, all"
    )
    group.add_argument(
        "--top-p",
        type=float,
        help="draw from the likeliest tokens of this probability in all; default: 1",
    )
    group.add_argument(
        "--min-p", type=float, help="least probability relative to the likeliest token; default: 0"
    )
    group.add_argument(
        "--seed", type=int, help="equal seeds give equal tokens; default: a random one"
    )
    group.add_argument(
        "--stop", action="append", help="end before this text; may be given several times"
    )
    group.add_argument(
        "--ignore-eos",
        action="store_true",
        default=None,
        help="go on after the end-of-sequence token",
    )
    group.add_argument("--no-speculation", action="store_true", help="decode plainly")
    group.add_argument(
        "--timeout",
        type=number_above_0,
        help="seconds that a completion may take; default: no limit",
    )


def sampling_options(arguments: argparse.Namespace) -> GenerateOptions:
    return GenerateOptions(
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        seed=arguments.seed,
        stop=arguments.stop,
        ignore_eos=arguments.ignore_eos,
        speculation=False if arguments.no_speculation else None,
        timeout=arguments.timeout,
    )
