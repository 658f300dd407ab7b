"""``python -m dspark.candidates``: the candidates service."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import uvloop

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.server import serve
from dspark.config import parse

BAD_SETTING = 2


def main(argv: Sequence[str] | None = None) -> None:
    config = parse(CandidatesConfig, "Guesses the next tokens of requests.", argv)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        uvloop.run(serve(config))
    except ValueError as error:
        print(f"candidates: bad setting: {error}", file=sys.stderr)
        raise SystemExit(BAD_SETTING) from error


if __name__ == "__main__":
    main()
