"""Blocks that leave one engine and come to another: the tokens stay those of an undisturbed run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dspark.errors import InvalidArgument, UnknownRequest
from dspark.kv_blocks import ImportHead, KvBlocks
from dspark.sampling import SamplingParams
from dspark.step import SequenceRef
from dspark.verifier.engine import Engine
from harness.fake_model import FakeModel
from harness.verifier_engine import Client, Driver, fake_engine, plain_decode

PROMPT = list(range(11))
DRAWN = SamplingParams(temperature=0.8, seed=5, max_tokens=40)


def exported(engine: Engine, ref: SequenceRef) -> list[KvBlocks]:
    runs: list[KvBlocks] = []
    while run := engine.exchange.export(ref, sum(len(r.data) for r in runs) // block_bytes(engine)):
        runs.append(run)
    return runs


def block_bytes(engine: Engine) -> int:
    return engine.exchange.type.layout.block_bytes


def head_of(engine: Engine, client: Client, cache_salt: str = "") -> ImportHead:
    return ImportHead(engine.exchange.type, tuple(client.tokens), cache_salt)


def imported(engine: Engine, head: ImportHead, runs: list[KvBlocks]) -> int:
    """Tokens whose blocks arrived."""
    incoming = engine.exchange.begin_import(head)
    try:
        for run in runs:
            incoming.add(run)
        return incoming.num_tokens
    finally:
        incoming.close()
        engine.check()


def half_way(num_steps: int = 9) -> tuple[Engine, Client]:
    """An engine with a request that has come some way."""
    engine, _ = fake_engine()
    client = Client("r", PROMPT, DRAWN)
    driver = Driver(engine)
    driver.admit(client)
    for _ in range(num_steps):
        driver.work(client)
    return engine, client


def test_a_request_goes_on_from_shipped_blocks_with_the_same_tokens() -> None:
    engine, client = half_way()
    heir, runner = fake_engine()
    full = (len(client.tokens) - 1) // 4 * 4
    assert imported(heir, head_of(engine, client), exported(engine, client.ref())) == full
    client.epoch = 1
    Driver(heir).run(client)
    assert client.cached_tokens == full
    assert (
        sum(len(batch.token_ids) for batch in runner.batches[:1]) == len(client.prompt) + 9 - full
    )
    assert client.committed == plain_decode(FakeModel(), PROMPT, DRAWN)[0]
    heir.check()
    assert heir.pool.num_in_use == 0


def test_only_full_blocks_of_computed_tokens_leave() -> None:
    engine, _ = fake_engine()
    client = Client("r", PROMPT, DRAWN, max_pending_rows=6)
    driver = Driver(engine)
    driver.admit(client)
    assert exported(engine, client.ref()) == []
    driver.work(client)
    (run,) = exported(engine, client.ref())
    assert len(run.data) == block_bytes(engine)


def test_one_that_is_not_live_has_nothing_to_export() -> None:
    engine, client = half_way()
    for ref in (SequenceRef("other", 0), replace(client.ref(), epoch=7)):
        with pytest.raises(UnknownRequest):
            engine.exchange.export(ref, 0)


def test_what_is_here_already_is_not_stored_again() -> None:
    engine, client = half_way()
    heir, _ = fake_engine()
    head, runs = head_of(engine, client), exported(engine, client.ref())
    assert imported(heir, head, runs) == imported(heir, head, runs)
    assert heir.exchange.num_imported == (len(client.tokens) - 1) // 4
    assert heir.pool.num_cached == heir.exchange.num_imported


def test_another_tenant_finds_nothing_of_it() -> None:
    engine, client = half_way()
    heir, _ = fake_engine()
    imported(heir, head_of(engine, client, cache_salt="mine"), exported(engine, client.ref()))
    client.epoch, client.cache_salt = 1, "yours"
    Driver(heir).admit(client)
    assert client.cached_tokens == 0


@pytest.mark.parametrize("name", ["model_digest", "kernel_class", "layout"])
def test_blocks_of_another_type_are_refused(name: str) -> None:
    engine, client = half_way()
    head = head_of(engine, client)
    layout = replace(head.type.layout, dtype="other")
    other = replace(head.type, **{name: layout if name == "layout" else "other"})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"head\.type"):
        engine.exchange.begin_import(replace(head, type=other))


def test_damaged_missing_and_torn_blocks_are_refused_and_those_before_them_stay() -> None:
    engine, client = half_way()
    (run,) = exported(engine, client.ref())
    size = block_bytes(engine)
    first = KvBlocks.of(0, run.data[:size])
    rest = run.data[size:]
    flipped = bytes([rest[0] ^ 1]) + rest[1:]
    bad = {
        "blocks.crc32": replace(KvBlocks.of(1, rest), data=flipped),
        "blocks.first_block": KvBlocks.of(2, rest),
        "blocks.data": KvBlocks.of(1, rest[:-3]),
    }
    for field, blocks in bad.items():
        heir, _ = fake_engine()
        with pytest.raises(InvalidArgument, match=field):
            imported(heir, head_of(engine, client), [first, blocks])
        assert heir.pool.num_cached == 1
        client.epoch += 1
        client.cached_tokens = 0
        Driver(heir).admit(client)
        assert client.cached_tokens == 4


def test_an_import_leaves_room_for_those_that_run() -> None:
    engine, client = half_way()
    heir, _ = fake_engine(num_blocks=8, num_evictable_blocks=8)
    other = Client("other", [1] * 25, DRAWN)
    driver = Driver(heir)
    driver.admit(other)
    driver.work(other)
    free = heir.pool.num_available
    imported(heir, head_of(engine, client), exported(engine, client.ref()))
    assert heir.pool.num_available == free
    assert heir.pool.num_cached == free


def test_no_more_comes_than_the_cache_keeps() -> None:
    engine, client = half_way()
    heir, _ = fake_engine(num_evictable_blocks=2)
    assert imported(heir, head_of(engine, client), exported(engine, client.ref())) == 8
    assert heir.pool.num_cached == 2
