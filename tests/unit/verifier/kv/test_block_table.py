"""Positions resolve to slots through the blocks, however scattered these are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dspark.verifier.kv.block_table import BlockTable


@given(
    st.integers(1, 7),
    st.lists(st.lists(st.integers(0, 10_000), max_size=5), max_size=12),
    st.integers(0, 200),
)
def test_slots_follow_the_blocks(size: int, batches: list[list[int]], keep: int) -> None:
    table = BlockTable(size)
    blocks: list[int] = []
    for batch in batches:
        table.append(batch)
        blocks += batch
    wanted = [block * size + offset for block in blocks for offset in range(size)]
    assert table.slots.tolist() == wanted
    assert table.block_ids().tolist() == table.blocks == blocks
    num_kept = min(len(blocks), -(-keep // size))
    assert table.trim(keep) == blocks[num_kept:]
    assert table.slots.tolist() == wanted[: num_kept * size]
    table.append([77])
    assert table.slots.tolist() == wanted[: num_kept * size] + [77 * size + i for i in range(size)]


def test_missing_blocks_are_counted_from_the_capacity() -> None:
    table = BlockTable(4)
    assert [table.num_missing(n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    table.append([9])
    assert [table.num_missing(n) for n in (0, 4, 5, 12)] == [0, 0, 1, 2]
