"""Which KV blocks are free, in use or cached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable


class OutOfBlocks(Exception):
    """The pool has fewer blocks left than asked for; nothing was allocated."""


class BlockPool:
    """Owns the state of every KV block. A block is in exactly one state:

    - free: its content is worthless. The block freed last is taken first, so that memory that was
      never needed is never touched.
    - in use: one or more sequences refer to it. Only a block with one owner and no retained content
      may be written.
    - cached: no sequence refers to it, its content is retained for reuse. At most ``max_cached``
      blocks are; the least recently used goes first.

    ``num_free + num_cached + num_in_use == num_blocks`` always holds.
    """

    def __init__(self, num_blocks: int, max_cached: int) -> None:
        self.num_blocks = num_blocks
        self.max_cached = max_cached
        # Called with a block whose retained content is given up.
        self.on_evict: Callable[[int], None] = lambda block: None
        self.num_evictions = 0
        self._free = list(range(num_blocks - 1, -1, -1))
        self._ref_counts = [0] * num_blocks
        self._retained: set[int] = set()
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_in_use(self) -> int:
        return sum(count > 0 for count in self._ref_counts)

    @property
    def num_available(self) -> int:
        """Blocks that can be allocated: free ones, and cached ones that would be evicted."""
        return len(self._free) + len(self._cached)

    def ref_count(self, block: int) -> int:
        return self._ref_counts[block]

    def is_writable(self, block: int) -> bool:
        """Whether the block has one owner and no content that others may come to read."""
        return self._ref_counts[block] == 1 and block not in self._retained

    def allocate(self, count: int) -> list[int]:
        """Take blocks with a reference each; raises OutOfBlocks."""
        if count > self.num_available:
            raise OutOfBlocks(f"{count} blocks wanted, {self.num_available} available")
        while len(self._free) < count:
            self._evict()
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._ref_counts[block] = 1
        return blocks

    def acquire(self, block: int) -> None:
        """Add a reference to a block that is in use or cached."""
        assert self._ref_counts[block] > 0 or block in self._cached, "a free block has no content"
        self._cached.pop(block, None)
        self._ref_counts[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Drop one reference of each block, given in the order of their tokens.

        Later blocks become older in eviction order, since they are of no use without the earlier
        ones.
        """
        for block in reversed(list(blocks)):
            assert self._ref_counts[block] > 0, "a block was released twice"
            self._ref_counts[block] -= 1
            if self._ref_counts[block] > 0:
                continue
            if block in self._retained:
                self._cached[block] = None
            else:
                self._free.append(block)
        while len(self._cached) > self.max_cached:
            self._evict()

    def retain(self, block: int) -> None:
        """Keep the content of a block in use when its last owner releases it."""
        assert self._ref_counts[block] > 0, "only a block in use has content to retain"
        self._retained.add(block)

    def discard(self, block: int) -> None:
        """Keep the content of a block in use no longer than its owners do."""
        assert self._ref_counts[block] > 0, "what is cached is evicted instead"
        self._retained.discard(block)

    def _evict(self) -> None:
        block, _ = self._cached.popitem(last=False)
        self._retained.discard(block)
        self._free.append(block)
        self.num_evictions += 1
        self.on_evict(block)

    def check(self) -> None:
        """Assert the invariants; meant for idle moments and tests."""
        free, cached = set(self._free), set(self._cached)
        in_use = {block for block, count in enumerate(self._ref_counts) if count > 0}
        assert len(free) == len(self._free), "a block is free twice"
        assert not (free & cached or free & in_use or cached & in_use), "a block has two states"
        assert len(free) + len(cached) + len(in_use) == self.num_blocks, "a block is lost"
        assert cached <= self._retained and not free & self._retained, "retained content is off"
        assert all(count >= 0 for count in self._ref_counts)
        assert len(cached) <= self.max_cached, "too many cached blocks"
