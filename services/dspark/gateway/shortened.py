"""What a client sent, short enough to be repeated in an error."""

from __future__ import annotations

MAX_CHARS = 100


def shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
