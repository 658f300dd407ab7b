"""``dspark generate``: one completion, streamed to stdout."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from enum import Enum
from typing import Any

from dspark.cli.connection import add_connection_arguments, connected
from dspark.cli.printing import print_stream
from dspark.cli.progress import Progress
from dspark.cli.sampling_flags import add_sampling_arguments, sampling_options
from dspark.cli.text_input import accept_any_bytes, checked
from dspark.client import Client, Completion, GenerateOptions, Prompt

NAME = "generate"
HELP = "complete one prompt"


def add_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", help="what to answer or continue; - reads standard input")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--chat", action="store_true", help="as a user's message (the default)")
    form.add_argument("--raw", action="store_true", help="as text to continue")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    add_sampling_arguments(parser)
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    accept_any_bytes()
    text = checked(sys.stdin.read() if arguments.prompt == "-" else arguments.prompt, "prompt")
    prompt: Prompt = text if arguments.raw else [{"role": "user", "content": text}]
    options = sampling_options(arguments)
    with connected(arguments, Progress()) as client:
        if arguments.json:
            print(json.dumps(as_json(client.generate(prompt, **options)), ensure_ascii=False))
        else:
            _stream(client, prompt, options)
    return 0


def as_json(completion: Completion) -> dict[str, Any]:
    """The completion as JSON values, in the order of its fields."""
    return {name: _plain(value) for name, value in dataclasses.asdict(completion).items()}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _stream(client: Client, prompt: Prompt, options: GenerateOptions) -> None:
    with client.stream(prompt, **options) as stream:
        print_stream(stream)
