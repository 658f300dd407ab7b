"""How errors name a field inside a JSON body."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dspark.gateway.shortened import shortened
from dspark.gateway.unicode_text import is_text


def field_path(location: Iterable[int | str]) -> str:
    """``messages[0].role`` for ("messages", 0, "role")."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            name = shortened(readable(part))
            path += f".{name}" if path else name
    return shortened(path)


def readable(key: str) -> str:
    """The key, as JSON escapes it if it is no text."""
    return key if is_text(key) else json.dumps(key)
