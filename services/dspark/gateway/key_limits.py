"""What an API key may use: choices at a time, and tokens a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LARGEST = 10**12
LIMIT_FIELDS = ("max_concurrency", "tokens_per_minute")


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """None means without limit. A request counts as many times as it has choices."""

    max_concurrency: int | None = None
    tokens_per_minute: int | None = None

    def fields(self) -> dict[str, int]:
        """Those that are set, as a line of the file of keys has them."""
        stated = {name: getattr(self, name) for name in LIMIT_FIELDS}
        return {name: value for name, value in stated.items() if value is not None}


NO_LIMITS = KeyLimits()


def parse_limits(fields: Mapping[str, Any]) -> KeyLimits:
    """Raises ValueError that names the field."""
    given = {name: fields[name] for name in LIMIT_FIELDS if name in fields}
    for name, value in given.items():
        if type(value) is not int or not 1 <= value <= LARGEST:
            raise ValueError(f"{name} must be an integer from 1 to {LARGEST}")
    return KeyLimits(**given)
