"""How many processors this process may really use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus(quota_file: Path = _CGROUP_QUOTA) -> int:
    """Processors by affinity and by the container's quota, whichever is less; at least 1.

    More threads than the quota allows would wait for each other in mid-pass.
    """
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = quota_file.read_text().split()
    except (OSError, ValueError):
        return allowed
    if quota == "max":
        return allowed
    return max(1, min(allowed, math.ceil(int(quota) / int(period))))
