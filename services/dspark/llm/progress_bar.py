"""The progress of a batch on stderr, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dspark.llm.outputs import RequestOutput


@contextmanager
def progress_bar(
    total: int, is_wanted: bool, console: Console | None = None
) -> Iterator[Callable[[RequestOutput], None]]:
    """Yields what is to be called with each output; it may be called from any thread."""
    console = console or Console(stderr=True)
    bar = Progress(
        TextColumn("generating"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[speed]}"),
        console=console,
        disable=not is_wanted or not console.is_terminal,
    )
    with bar:
        task_id = bar.add_task("", total=total, speed="")
        num_tokens = 0

        def advance(output: RequestOutput) -> None:
            nonlocal num_tokens
            num_tokens += sum(len(each.token_ids) for each in output.outputs)
            elapsed = bar.tasks[0].elapsed
            speed = f"{num_tokens / elapsed:.1f} tokens/s" if elapsed else ""
            bar.update(task_id, advance=1, speed=speed)

        yield advance
