"""Deadlines that a caller may set."""

from __future__ import annotations

import math
from typing import Any

from dspark.errors import InvalidArgument

# gRPC takes far longer ones for ones that have passed.
_LONGEST_S = 1e9


def checked_timeout(seconds: Any) -> float | None:
    """The seconds for gRPC, None for no deadline; raises InvalidArgument that names timeout."""
    if seconds is None:
        return None
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or seconds <= 0:
        raise InvalidArgument("timeout", "must be a finite number of seconds above 0, or None")
    return min(float(seconds), _LONGEST_S)
