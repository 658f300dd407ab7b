"""Prints an answer while it comes."""

from __future__ import annotations

from collections.abc import Iterable

from dspark.client import Chunk
from dspark.errors import DSparkError


def print_stream(chunks: Iterable[Chunk], said: list[str] | None = None) -> None:
    """Print the text and a line's end, that one also before an error that follows some text.

    ``said`` collects the pieces, for a caller who is interrupted.
    """
    said = [] if said is None else said
    try:
        for chunk in chunks:
            said.append(chunk.text)
            print(chunk.text, end="", flush=True)
    except DSparkError:
        if any(said):
            print(flush=True)
        raise
    print(flush=True)
