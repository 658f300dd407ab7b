"""Failures that a person at the terminal can mend."""

from __future__ import annotations


class CliError(Exception):
    """Ends the command with the message on stderr, without a traceback, and ``exit_code``."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
