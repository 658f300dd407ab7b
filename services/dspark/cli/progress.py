"""Progress of long parts on stderr: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status


class Part:
    """One running part; ``update`` says where it is."""

    def __init__(self, title: str, console: Console, status: Status | None) -> None:
        self._title = title
        self._console = console
        self._status = status
        self._last = ""

    def update(self, detail: str) -> None:
        """Show ``detail`` behind the title; off a terminal each change is a line."""
        if detail == self._last:
            return
        self._last = detail
        if self._status is not None:
            self._status.update(f"{escape(self._title)} [dim]{escape(detail)}[/dim]")
        else:
            self._console.print(f"  {escape(self._title)}: {escape(detail)}")


class Progress:
    """Shows parts one after the other; ``quiet`` shows nothing but notes."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet

    @contextmanager
    def part(self, title: str) -> Iterator[Part]:
        """A part that is shown while it runs, with its time once it is done."""
        if self._quiet:
            yield Part(title, Console(quiet=True), None)
            return
        start = time.perf_counter()
        if self.console.is_terminal:
            with self.console.status(escape(title)) as status:
                yield Part(title, self.console, status)
        else:
            self.console.print(f"{escape(title)} ...")
            yield Part(title, self.console, None)
        seconds = time.perf_counter() - start
        self.console.print(f"[green]✓[/green] {escape(title)} [dim]({seconds:.1f} s)[/dim]")

    def note(self, text: str) -> None:
        """One line that stays."""
        self.console.print(escape(text))
