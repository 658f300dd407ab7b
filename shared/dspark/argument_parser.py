"""A parser of command lines whose usage and errors are short, however many flags there are."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import NoReturn

_USAGE = 2
_FLAGS = "[FLAGS]"


class ArgumentParser(argparse.ArgumentParser):
    """Flags are never abbreviated; an error is one line on stderr, and the exit code 2."""

    def __init__(self, prog: str | None = None, description: str | None = None) -> None:
        super().__init__(
            prog=prog, description=description, allow_abbrev=False, formatter_class=_Help
        )

    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE, f"{self.prog}: error: {message}\n")


class _Help(argparse.HelpFormatter):
    """The usage shows what must be given; the list of flags below it has the rest."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        every = [each for each in actions if each.dest != "help"]
        needed = [each for each in every if each.required or not each.option_strings]
        if len(needed) < len(every):
            self._prog = f"{self._prog} {_FLAGS}"
        super().add_usage(usage, needed, [], prefix)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """What a flag takes, once behind all its names."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        taken = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {taken}"
