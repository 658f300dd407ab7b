"""Every block is in exactly one state, whatever happens."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dspark.verifier.kv.block_pool import BlockPool, OutOfBlocks


def test_blocks_freed_last_are_taken_first_and_untouched_ones_stay_untouched() -> None:
    pool = BlockPool(100, 0)
    first = pool.allocate(3)
    assert first == [0, 1, 2]
    pool.release(first)
    assert sorted(pool.allocate(3)) == [0, 1, 2]


def test_a_failed_allocation_changes_nothing() -> None:
    pool = BlockPool(4, 4)
    kept = pool.allocate(1)
    pool.retain(kept[0])
    pool.release(kept)
    evicted: list[int] = []
    pool.on_evict = evicted.append
    with pytest.raises(OutOfBlocks):
        pool.allocate(5)
    assert (pool.num_free, pool.num_cached, evicted) == (3, 1, [])


def test_cached_blocks_go_least_recently_used_first_and_later_ones_of_a_prefix_before_earlier() -> (
    None
):
    pool = BlockPool(4, 4)
    evicted: list[int] = []
    pool.on_evict = evicted.append
    old, new = pool.allocate(2), pool.allocate(2)
    for block in old + new:
        pool.retain(block)
    pool.release(old)
    pool.release(new)
    pool.acquire(old[0])
    pool.allocate(3)
    assert evicted == [old[1], new[1], new[0]]


def test_at_most_max_cached_blocks_are_kept() -> None:
    pool = BlockPool(8, 2)
    blocks = pool.allocate(5)
    for block in blocks:
        pool.retain(block)
    pool.release(blocks)
    assert (pool.num_cached, pool.num_free) == (2, 6)
    pool.check()


def test_only_a_private_block_without_retained_content_is_writable() -> None:
    pool = BlockPool(2, 2)
    (block,) = pool.allocate(1)
    assert pool.is_writable(block)
    pool.acquire(block)
    assert not pool.is_writable(block)
    pool.release([block])
    pool.retain(block)
    assert not pool.is_writable(block)


class PoolMachine(RuleBasedStateMachine):
    """Owners take, share, retain and release blocks in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(12, 3)
        self.pool.on_evict = lambda block: self.known.discard(block)
        self.known: set[int] = set()
        self.owned: list[list[int]] = []

    @rule(count=st.integers(0, 6))
    def allocate(self, count: int) -> None:
        if count > self.pool.num_available:
            with pytest.raises(OutOfBlocks):
                self.pool.allocate(count)
        else:
            self.owned.append(self.pool.allocate(count))

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        for block in data.draw(st.sampled_from(self.owned)):
            self.pool.retain(block)
            self.known.add(block)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(sorted(self.known)))
        self.pool.acquire(block)
        self.owned.append([block])

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.pool.release(self.owned.pop(data.draw(st.integers(0, len(self.owned) - 1))))

    @invariant()
    def accounting_holds(self) -> None:
        pool = self.pool
        pool.check()
        assert pool.num_free + pool.num_cached + pool.num_in_use == pool.num_blocks
        counts = [sum(blocks.count(b) for blocks in self.owned) for b in range(pool.num_blocks)]
        assert counts == [pool.ref_count(block) for block in range(pool.num_blocks)]


TestPoolMachine = PoolMachine.TestCase
