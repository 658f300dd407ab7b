"""What is remembered of the prefixes that a verifier got."""

from __future__ import annotations

from dspark.scheduler.prefix_record import PrefixRecord, block_hashes

TEXT = list(range(100, 140))


def test_full_blocks_have_hashes_of_all_that_is_before_them() -> None:
    hashes = block_hashes("", TEXT[:14], 4)
    assert len(hashes) == len(set(hashes)) == 3
    assert block_hashes("", TEXT, 4)[:3] == hashes
    other = block_hashes("", [7, *TEXT[1:14]], 4)
    assert not set(other) & set(hashes)


def test_tenants_are_apart() -> None:
    assert not set(block_hashes("one", TEXT, 4)) & set(block_hashes("two", TEXT, 4))


def test_the_longest_known_beginning_counts() -> None:
    record = PrefixRecord(4, 100)
    record.note(block_hashes("", TEXT[:20], 4))
    assert record.num_tokens(block_hashes("", TEXT, 4)) == 20
    assert record.num_tokens(block_hashes("", [*TEXT[:9], *TEXT[20:]], 4)) == 8
    assert record.num_tokens([]) == 0


def test_the_oldest_prefix_is_forgotten_from_its_end() -> None:
    record = PrefixRecord(4, 6)
    first, second = block_hashes("", TEXT[:16], 4), block_hashes("x", TEXT[:16], 4)
    record.note(first)
    record.note(second)
    assert len(record) == 6
    assert (record.num_tokens(first), record.num_tokens(second)) == (8, 16)


def test_a_prefix_that_is_used_again_stays() -> None:
    record = PrefixRecord(4, 8)
    first, second, third = (block_hashes(salt, TEXT[:16], 4) for salt in "abc")
    for hashes in (first, second, first, third):
        record.note(hashes)
    assert [record.num_tokens(hashes) for hashes in (first, second, third)] == [16, 0, 16]
