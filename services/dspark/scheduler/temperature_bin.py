"""How freely a request's tokens are drawn: candidates' luck depends on it more than on all else."""

from __future__ import annotations

from bisect import bisect_left

from dspark.sampling import SamplingParams

# Requests up to one of these temperatures, and above the one before it, are taken to be alike.
EDGES = (0.0, 0.35, 0.75, 1.1)


def temperature_bin(sampling: SamplingParams) -> int:
    """0 where the likeliest token is always drawn, up to ``len(EDGES)`` for the freest."""
    return 0 if sampling.top_k == 1 else bisect_left(EDGES, sampling.temperature)
