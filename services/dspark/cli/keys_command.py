"""``dspark keys``: makes API keys for a gateway's ``--api-keys-file``."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from typing import Any

from dspark.cli.failure import CliError
from dspark.gateway.api_keys import digest_of, draw_key, parse_key
from dspark.gateway.key_limits import LIMIT_FIELDS

NAME = "keys"
HELP = "make an API key"
_DAYS = re.compile(r"([1-9][0-9]{0,4})d")


def add_parser(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser(
        "create", help="print a new key, once, and the line for the gateway's file"
    )
    create.add_argument("--name", required=True, help="whose key it is, for logs")
    create.add_argument("--expires", help="such as 90d, or 2027-01-31T00:00:00Z; default: never")
    create.add_argument("--tenant", help="keys of one tenant share caches; default: the name")
    create.add_argument(
        "--max-concurrency", type=int, help="choices that it may run at a time; default: any number"
    )
    create.add_argument(
        "--tokens-per-minute", type=int, help="prompt and generated tokens; default: any number"
    )


def run(arguments: argparse.Namespace) -> int:
    """The line goes to stdout, so that it can be appended to the file; the key to stderr."""
    key = draw_key()
    fields: dict[str, Any] = {"name": arguments.name, "sha256": digest_of(key).hex()}
    if arguments.expires is not None:
        fields["expires"] = _expiry(arguments.expires)
    if arguments.tenant is not None:
        fields["tenant"] = arguments.tenant
    for name in LIMIT_FIELDS:
        if (limit := getattr(arguments, name)) is not None:
            fields[name] = limit
    try:
        line = parse_key(fields).line()
    except ValueError as error:
        raise CliError(f"--{str(error).replace('_', '-')}", exit_code=2) from error
    print(f"key, shown only here: {key}", file=sys.stderr, flush=True)
    print(line)
    return 0


def _expiry(text: str) -> str:
    match = _DAYS.fullmatch(text)
    if match is None:
        return text
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return (now + datetime.timedelta(days=int(match[1]))).isoformat()
