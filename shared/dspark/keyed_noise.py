"""Noise that is a pure function of (seed, position, token id), alike for verifier and drafters."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Bits = NDArray[np.uint64]

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_POSITION_STRIDE = 0xD1342543DE82EF95
# Uniform draws are (k + 1/2) / 2**52: exact in float64 and strictly inside (0, 1).
_UNIFORM_BITS = 52
_SHIFT = np.uint64(64 - _UNIFORM_BITS)
_UNIT = 2.0**-_UNIFORM_BITS
# Ids whose bits and scratch the second-level cache holds through all operations.
_BLOCK = 16_384


class KeyedNoise:
    """The noise of one drawn token: 64 bits, or a Gumbel draw, for each token id.

    The bits are SplitMix64's output function (Steele et al. 2014) over a key made of seed and
    position, with the token id as the counter. No state exists, so nothing can advance it wrongly.
    """

    def __init__(self, seed: int, position: int) -> None:
        mixed_seed = _mix((seed + _GOLDEN) & _MASK)
        self._start = _mix((mixed_seed + position * _POSITION_STRIDE) & _MASK)
        self._key = np.uint64(self._start)

    def bits(self, token_ids: Ids) -> Bits:
        """[n] the raw bits of some token ids."""
        bits = token_ids.astype(np.uint64) * np.uint64(_GOLDEN) + self._key
        _finish(bits, np.empty_like(bits))
        return bits

    def bits_of_all(self, vocab_size: int) -> Bits:
        """[vocab_size] the raw bits of every token id."""
        counters, bits = _counters(vocab_size), np.empty(vocab_size, dtype=np.uint64)
        scratch = np.empty(min(_BLOCK, vocab_size), dtype=np.uint64)
        for first in range(0, vocab_size, _BLOCK):
            block = bits[first : first + _BLOCK]
            np.add(counters[first : first + _BLOCK], self._key, out=block)
            _finish(block, scratch[: len(block)])
        return bits

    def gumbel(self, token_ids: Ids) -> NDArray[np.float64]:
        """[n] standard Gumbel draws of some token ids."""
        uniform = ((self.bits(token_ids) >> _SHIFT) + 0.5) * _UNIT
        draws: NDArray[np.float64] = -np.log(-np.log(uniform))
        return draws

    def gumbel_of(self, token_id: int) -> float:
        """The draw of one token id: the same as ``gumbel``'s but for rounding, and quicker."""
        bits = _mix((token_id * _GOLDEN + self._start) & _MASK)
        uniform = ((bits >> 64 - _UNIFORM_BITS) + 0.5) * _UNIT
        return -math.log(-math.log(uniform))


def _finish(bits: Bits, scratch: Bits) -> None:
    """SplitMix64's output function, in place."""
    for shift, factor in ((30, _MIX_1), (27, _MIX_2)):
        np.right_shift(bits, np.uint64(shift), out=scratch)
        np.bitwise_xor(bits, scratch, out=bits)
        np.multiply(bits, np.uint64(factor), out=bits)
    np.right_shift(bits, np.uint64(31), out=scratch)
    np.bitwise_xor(bits, scratch, out=bits)


def bits_at_gumbel(value: float) -> int | None:
    """Bits that every draw of at least ``value`` reaches; None if no draw can be that large.

    Errs a few units on the low side, so it may let smaller draws through but never keeps one out.
    """
    uniform = float(np.exp(-np.exp(-max(value, -700.0))))
    threshold = int(uniform * 2.0**_UNIFORM_BITS) - 4
    if threshold >= 2**_UNIFORM_BITS - 4 and value > 40.0:
        return None
    return max(threshold, 0) << int(_SHIFT)


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)


@lru_cache(maxsize=4)
def _counters(vocab_size: int) -> Bits:
    return np.arange(vocab_size, dtype=np.uint64) * np.uint64(_GOLDEN)
