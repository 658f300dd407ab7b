"""Random numbers that are functions of their keys, so that no draw depends on the order of draws.

SplitMix64's output function (Steele et al. 2014) is applied to each key in turn.
"""

from __future__ import annotations

import zlib

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_UNIT = 2.0**-53


def key_of(text: str) -> int:
    """A key that is the same in every process."""
    return zlib.crc32(text.encode())


def combined(*keys: int) -> int:
    """One key of several; their order counts."""
    state = 0
    for key in keys:
        state = _mix((state ^ key) + _GOLDEN & _MASK)
    return state


def uniform(*keys: int) -> float:
    """From 0 to below 1."""
    return (combined(*keys) >> 11) * _UNIT


def _mix(bits: int) -> int:
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31
