"""Whether a string is Unicode text: JSON can escape half of a surrogate pair, no character."""

from __future__ import annotations

import re

LONE_SURROGATE = "has a lone surrogate, which is no character"
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_text(value: str) -> bool:
    return value.isascii() or _SURROGATE.search(value) is None
