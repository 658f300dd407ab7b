"""K/V after a step is what a fresh prefill of the committed tokens would have written."""

from __future__ import annotations

import pytest

from dspark.sampling import SamplingParams
from dspark.token_tree import TokenTree
from dspark.verifier.engine import Engine
from harness.fake_model import FakeModel
from harness.scripted_drafters import NAMES, KnownText
from harness.verifier_engine import (
    GREEDY,
    CheckedRunner,
    Client,
    Driver,
    fake_engine,
    plain_decode,
)

MODEL = FakeModel()
PROMPT = list(range(1, 10))


def assert_kv_is_fresh(engine: Engine, runner: CheckedRunner, client: Client) -> None:
    """Every computed position holds what a plain prefill writes there."""
    sequence = engine.sequences.get(client.request_id)
    assert sequence is not None
    slots = sequence.table.slots[: sequence.num_computed]
    wanted = MODEL.digests_of(client.tokens[: sequence.num_computed])
    assert runner.kv.digests[slots].tolist() == wanted.tolist()


def known_text(prompt: list[int], num_tokens: int) -> KnownText:
    committed, _ = plain_decode(MODEL, prompt, SamplingParams(0.0, max_tokens=num_tokens))
    return KnownText(prompt + committed, MODEL.vocab_size)


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("name", NAMES)
def test_every_committed_position_holds_fresh_kv(name: str, block_size: int) -> None:
    engine, runner = fake_engine(block_size=block_size, num_blocks=256 // block_size)
    driver = Driver(engine)
    client = Client("a", PROMPT, drafter=known_text(PROMPT, 40).all()[name])
    driver.admit(client)
    for _ in range(8):
        driver.work(client)
        assert_kv_is_fresh(engine, runner, client)


def test_an_accepted_second_branch_is_moved_and_a_first_chain_is_not() -> None:
    text = known_text(PROMPT, 40)
    moved = {}
    for name in ("oracle", "branchy"):
        engine, runner = fake_engine()
        client = Client("a", PROMPT, drafter=text.all()[name])
        Driver(engine).admit(client)
        Driver(engine).work(client)
        assert client.num_accepted == 4
        moved[name] = runner.kv.num_moved
    assert moved == {"oracle": 0, "branchy": 4}


def test_slots_follow_the_block_table_in_a_fragmented_pool() -> None:
    """Blocks freed in between leave holes, so that a sequence's blocks are scattered."""
    engine, runner = fake_engine(num_blocks=32, num_evictable_blocks=8)
    driver = Driver(engine)
    fillers = [Client(f"f{i}", [i, *PROMPT], use_prefix_cache=False) for i in range(8)]
    driver.admit(*fillers)
    driver.work(*fillers)
    driver.step(releases=tuple(filler.ref() for filler in fillers[::2]))
    shared = Client("shared", PROMPT)
    driver.admit(shared)
    driver.work(shared)
    driver.step(releases=(shared.ref(),))
    prompt = [*PROMPT, 3]
    client = Client("a", prompt, drafter=known_text(prompt, 30).branchy)
    driver.admit(client)
    assert client.cached_tokens == 8
    for _ in range(4):
        driver.work(client)
        assert_kv_is_fresh(engine, runner, client)
    sequence = engine.sequences.get("a")
    assert sequence is not None
    gaps = {b - a for a, b in zip(sequence.table.blocks, sequence.table.blocks[1:], strict=False)}
    assert gaps != {1}, "the pool was not fragmented"
    assert client.committed == plain_decode(MODEL, prompt, GREEDY, max_model_len=30)[0][:20]


def test_two_equal_prompts_in_one_step_share_nothing_until_it_is_written() -> None:
    engine, runner = fake_engine()
    driver = Driver(engine)
    first, second = (Client(name, PROMPT, max_pending_rows=5) for name in ("a", "b"))
    outcome = driver.step(
        admissions=(first.admission(), second.admission()), work=(first.work(), second.work())
    )
    assert outcome.cached_tokens == {"a": 0, "b": 0}
    third = Client("c", PROMPT)
    driver.admit(third)
    assert third.cached_tokens == 4
    for client in (first, second, third):
        driver.work(client)
        assert_kv_is_fresh(engine, runner, client)


def test_rejected_tokens_never_enter_the_prefix_cache_and_committed_ones_do() -> None:
    driver = Driver(fake_engine()[0])
    text = known_text(PROMPT, 12)
    client = Client("a", PROMPT, drafter=text.adversary)
    driver.admit(client)
    for _ in range(8):
        driver.work(client)
    committed = client.tokens
    driver.step(releases=(client.ref(),))
    hits = {}
    for name, tokens in {
        "committed": committed,
        "rejected": [*PROMPT, *text.adversary(PROMPT).token_ids, 0, 0, 0, 0],
    }.items():
        probe = Client(name, [*tokens, 1])
        driver.admit(probe)
        hits[name] = probe.cached_tokens
    # 17 tokens, the last of which is not computed, are four full blocks.
    assert hits == {"committed": 16, "rejected": 8}


def test_the_last_token_is_always_computed() -> None:
    driver = Driver(fake_engine()[0])
    prompt = PROMPT[:8]
    first = Client("a", prompt)
    driver.admit(first)
    driver.work(first)
    again = Client("b", prompt)
    driver.admit(again)
    assert again.cached_tokens == 4
    driver.work(again)
    assert again.committed == first.committed


def test_a_request_may_stay_out_of_the_prefix_cache() -> None:
    driver = Driver(fake_engine()[0])
    for name in ("a", "b"):
        client = Client(name, PROMPT, use_prefix_cache=False)
        driver.admit(client)
        driver.work(client)
        assert client.cached_tokens == 0
    probe = Client("c", PROMPT)
    driver.admit(probe)
    assert probe.cached_tokens == 0


def test_salts_do_not_see_each_other() -> None:
    driver = Driver(fake_engine()[0])
    for salt, hit in (("", 0), ("x", 0), ("y", 0), ("x", 8), ("", 8)):
        client = Client(f"{salt}{hit}", PROMPT, cache_salt=salt)
        driver.admit(client)
        driver.work(client)
        assert client.cached_tokens == hit


def test_a_finished_sequence_leaves_its_blocks_to_the_cache() -> None:
    engine, _ = fake_engine()
    driver = Driver(engine)
    client = Client("a", PROMPT, SamplingParams(0.0, max_tokens=8))
    driver.run(client)
    assert len(engine.sequences) == 0
    assert (engine.pool.num_in_use, engine.pool.num_cached) == (0, 4)
    turn = Client("b", [*client.tokens, 5, 6])
    driver.admit(turn)
    assert turn.cached_tokens == 16


def test_tokens_after_a_stop_are_not_cached() -> None:
    engine, _ = fake_engine(block_size=1, num_blocks=64, num_evictable_blocks=64)
    driver = Driver(engine)
    text = known_text(PROMPT, 12)
    stop = text.text[len(PROMPT) + 2]
    sampling = SamplingParams(0.0, max_tokens=12, stop_token_ids=frozenset({stop}))
    first = text.text.index(stop, len(PROMPT))
    client = Client("a", PROMPT, sampling, text.oracle)
    driver.run(client)
    assert client.tokens == text.text[: first + 1]
    # The stop token itself is the bonus token, whose K/V is not computed.
    probe = Client("b", text.text)
    driver.admit(probe)
    assert probe.cached_tokens == first


def test_an_unused_tree_leaves_no_blocks_behind() -> None:
    engine, _ = fake_engine(block_size=1, num_blocks=64)
    driver = Driver(engine)
    client = Client("a", PROMPT, drafter=known_text(PROMPT, 12).adversary)
    driver.admit(client)
    driver.work(client)
    assert engine.pool.num_in_use == len(client.tokens)


def test_wide_trees_may_reach_past_the_model_s_length_in_slots_only() -> None:
    driver = Driver(fake_engine(max_model_len=12)[0])
    wide = TokenTree(tuple(range(16)), (0,) * 16, (1,) * 16, (0.5,) * 16, ("s",))
    client = Client("a", PROMPT, drafter=lambda tokens: wide)
    driver.run(client)
    assert client.committed == plain_decode(MODEL, PROMPT, GREEDY, max_model_len=12)[0]
