"""Which prefixes a verifier probably has in its cache: those that were sent there lately."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

_HASH_BYTES = 8


def block_hashes(cache_salt: str, token_ids: Sequence[int], block_size: int) -> list[bytes]:
    """A hash for each full block of tokens, of the salt and all tokens up to the block's end."""
    chain = blake2b(cache_salt.encode(), digest_size=_HASH_BYTES).digest()
    hashes = []
    for start in range(0, len(token_ids) - block_size + 1, block_size):
        block = array("I", token_ids[start : start + block_size]).tobytes()
        chain = blake2b(chain + block, digest_size=_HASH_BYTES).digest()
        hashes.append(chain)
    return hashes


class PrefixRecord:
    """A bounded record of blocks, the least recently used of which are forgotten first.

    It is a guess: the verifier may have evicted what stands here. A wrong one costs time only.
    """

    def __init__(self, block_size: int, max_blocks: int) -> None:
        self.block_size = block_size
        self._max_blocks = max_blocks
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def note(self, hashes: Sequence[bytes]) -> None:
        """These blocks, in the order of their tokens, were sent there.

        Later ones become older, since they are of no use without the earlier ones.
        """
        for block in reversed(hashes):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._max_blocks:
            self._blocks.popitem(last=False)

    def num_tokens(self, hashes: Sequence[bytes]) -> int:
        """Leading tokens that are probably cached."""
        found = 0
        for block in hashes:
            if block not in self._blocks:
                break
            found += 1
        return found * self.block_size
