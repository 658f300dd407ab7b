"""The KV blocks of a simulated verifier: who holds how many, and which prompts are cached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class KvPool:
    """Sequences hold whole blocks of their own; full prompt blocks stay cached in what is free.

    A block that several sequences share counts once for each of them, which a real pool does not.
    """

    def __init__(self, num_blocks: int, block_size: int, *, caches_prefixes: bool = True) -> None:
        self.block_size = block_size
        self._num_blocks = num_blocks
        self._caches_prefixes = caches_prefixes
        self._held: dict[str, int] = {}
        self._num_held = 0
        # Keys of cached blocks, the one that was used last at the end.
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def num_free_blocks(self) -> int:
        """Cached blocks are free for whoever needs them."""
        return self._num_blocks - self._num_held

    def hold(self, request_id: str, num_tokens: int) -> bool:
        """Let a sequence have the blocks of so many tokens; False if there are too few."""
        more = -(-num_tokens // self.block_size) - self._held.get(request_id, 0)
        if more > self.num_free_blocks:
            return False
        self._held[request_id] = self._held.get(request_id, 0) + more
        self._num_held += more
        while len(self._cached) > self.num_free_blocks:
            self._cached.popitem(last=False)
        return True

    def release(self, request_id: str) -> None:
        """Harmless for a sequence that holds nothing."""
        self._num_held -= self._held.pop(request_id, 0)

    def cached_tokens(self, token_ids: Sequence[int], salt: str) -> int:
        """Tokens at the start of a text, never all of it, whose K/V is cached."""
        count = 0
        for key in self._keys(token_ids[:-1], salt):
            if key not in self._cached:
                break
            self._cached.move_to_end(key)
            count += self.block_size
        return count

    def enter(self, token_ids: Sequence[int], salt: str) -> None:
        """Cache the full blocks of a text that was computed."""
        for key in self._keys(token_ids, salt):
            self._cached[key] = None
            self._cached.move_to_end(key)
        while len(self._cached) > max(self.num_free_blocks, 0):
            self._cached.popitem(last=False)

    def _keys(self, token_ids: Sequence[int], salt: str) -> list[int]:
        """One key for each full block, which stands for all before it as well."""
        if not self._caches_prefixes:
            return []
        keys: list[int] = []
        before = hash(tuple(salt.encode()))
        for start in range(0, len(token_ids) - self.block_size + 1, self.block_size):
            before = hash((before, tuple(token_ids[start : start + self.block_size])))
            keys.append(before)
        return keys
