"""``python -m dspark.candidates``: the candidates service."""

from __future__ import annotations

from collections.abc import Sequence

import uvloop

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.server import serve
from dspark.config import SettingError, bad_settings_end, parse
from dspark.telemetry.process import telemetry


def main(argv: Sequence[str] | None = None) -> None:
    config = parse(CandidatesConfig, "Guesses the next tokens of requests.", argv)
    with bad_settings_end("candidates"), telemetry("candidates", config):
        try:
            uvloop.run(serve(config))
        except ValueError as error:
            raise SettingError(f"bad setting: {error}") from error


if __name__ == "__main__":
    main()
