"""A prefix is found in its own namespace only, and no longer than its blocks are kept."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dspark.verifier.kv.block_pool import BlockPool
from dspark.verifier.kv.prefix_cache import PrefixCache, digest_of

TOKENS = np.arange(100, 112)


def cache_of(pool: BlockPool, model: str = "m", kernel: str = "k", size: int = 4) -> PrefixCache:
    return PrefixCache(pool, size, model_digest=model, kernel_class=kernel)


def fill(cache: PrefixCache, pool: BlockPool, salt: str = "") -> list[int]:
    """Put all of TOKENS into the cache and give the blocks back."""
    blocks = pool.allocate(3)
    chain = cache.root(salt)
    for index, block in enumerate(blocks):
        chain = cache.extend(chain, TOKENS[index * 4 : index * 4 + 4])
        cache.insert(chain, block)
    pool.release(blocks)
    return blocks


def match(cache: PrefixCache, tokens: np.ndarray, salt: str = "", most: int = 3) -> list[int]:
    return cache.match(cache.root(salt), tokens, most)[0]


def test_the_longest_known_run_of_whole_blocks_matches() -> None:
    pool = BlockPool(8, 8)
    cache = cache_of(pool)
    blocks = fill(cache, pool)
    changed = TOKENS.copy()
    changed[6] += 1
    assert match(cache, TOKENS) == blocks
    assert match(cache, TOKENS, most=2) == blocks[:2]
    assert match(cache, changed) == blocks[:1]
    assert match(cache, TOKENS[1:], most=2) == []
    assert [pool.ref_count(block) for block in blocks] == [3, 2, 1]


def test_matching_continues_the_chain() -> None:
    pool = BlockPool(8, 8)
    cache = cache_of(pool)
    fill(cache, pool)
    _, chain = cache.match(cache.root(""), TOKENS, 2)
    expected = cache.extend(cache.extend(cache.root(""), TOKENS[:4]), TOKENS[4:8])
    assert chain == expected


def test_namespaces_never_collide() -> None:
    """Fields with equal text in other places, and texts that join to the same bytes."""
    variants = [
        (model, kernel, salt, size)
        for model in ("", "X", "XY", "X\0")
        for kernel in ("", "X", "Y")
        for salt in ("", "X", "YX", "\0")
        for size in (4, 8)
    ]
    roots = {
        cache_of(BlockPool(1, 1), model, kernel, size).root(salt)
        for model, kernel, salt, size in variants
    }
    assert len(roots) == len(variants)


def test_a_tenant_s_salt_hides_its_blocks() -> None:
    pool = BlockPool(8, 8)
    cache = cache_of(pool)
    fill(cache, pool, "tenant a")
    assert match(cache, TOKENS, "tenant b") == match(cache, TOKENS, "") == []
    assert len(match(cache, TOKENS, "tenant a")) == 3


def test_field_lists_never_collide() -> None:
    digests = [
        digest_of(a=b"xy"),
        digest_of(a=b"x", b=b"y"),
        digest_of(a=b"", b=b"xy"),
        digest_of(ab=b"xy"),
        digest_of(b=b"xy"),
        digest_of(),
    ]
    assert all(first != second for first, second in combinations(digests, 2))


def test_token_ids_do_not_run_into_each_other() -> None:
    cache = cache_of(BlockPool(1, 1))
    first = cache.extend(b"", np.array([1, 256]))
    assert first != cache.extend(b"", np.array([257, 0]))
    assert first != cache.extend(b"", np.array([1, 256, 0]))


def test_an_evicted_block_is_forgotten() -> None:
    pool = BlockPool(4, 4)
    cache = cache_of(pool)
    fill(cache, pool)
    taken = pool.allocate(3)
    assert len(match(cache, TOKENS)) == 1
    assert len(cache) == 1
    pool.release(taken)


def test_a_block_that_repeats_a_known_one_stays_private() -> None:
    pool = BlockPool(8, 8)
    cache = cache_of(pool)
    known = fill(cache, pool)
    twin = pool.allocate(1)
    cache.insert(cache.extend(cache.root(""), TOKENS[:4]), twin[0])
    pool.release(twin)
    assert pool.num_cached == 3
    assert match(cache, TOKENS) == known


@pytest.mark.parametrize("cap", [0, 1, 2])
def test_no_more_than_the_cap_is_kept(cap: int) -> None:
    pool = BlockPool(8, cap)
    cache = cache_of(pool)
    fill(cache, pool)
    # The blocks at the start of the prefix are of most use, so they stay.
    assert len(match(cache, TOKENS)) == cap
