"""Small pools, garbage candidates, caps and failures: nothing is lost and nothing leaks."""

from __future__ import annotations

import logging
import random
from dataclasses import replace

import numpy as np
import pytest

from dspark.sampling import FinishReason, SamplingParams
from dspark.step import WorkStatus
from dspark.token_tree import TokenTree
from harness.fake_model import FakeModel
from harness.scripted_drafters import KnownText, tree_of
from harness.verifier_engine import GREEDY, Client, Driver, fake_engine, plain_decode

PROMPT = list(range(1, 10))
MODEL = FakeModel()


def text_of(prompt: list[int], size: int = 60) -> KnownText:
    output = plain_decode(MODEL, prompt, SamplingParams(0.0, max_tokens=size))[0]
    return KnownText(prompt + output, MODEL.vocab_size)


def test_no_blocks_changes_nothing_and_the_work_succeeds_later() -> None:
    driver = Driver(fake_engine(num_blocks=5)[0])
    first, second = Client("a", PROMPT), Client("b", [0, *PROMPT])
    driver.admit(first, second)
    driver.work(first)
    outcome = driver.step(work=(second.work(),))
    assert outcome.results[0].status is WorkStatus.NO_BLOCKS
    assert outcome.results[0].num_computed_tokens == 0
    assert outcome.num_free_blocks == 2
    driver.step(releases=(first.ref(),))
    driver.work(second)
    assert len(second.committed) == 1


def test_candidates_never_push_a_sequence_out() -> None:
    """The tree of the first entry takes no block that the second entry's tokens need."""
    driver = Driver(fake_engine(num_blocks=6)[0])
    first = Client("a", PROMPT, drafter=text_of(PROMPT).branchy)
    second = Client("b", [0, *PROMPT])
    driver.admit(first, second)
    driver.work(first, second)
    assert len(second.committed) == 1
    # Three slots were left for the first one's twelve nodes: one level.
    assert first.num_accepted == 1


def run_with_preemption(driver: Driver, clients: list[Client]) -> int:
    """Whenever blocks run out, the last client starts over later; returns how often that was."""
    running, waiting, num_preemptions = list(clients), [], 0
    driver.admit(*running)
    while running:
        outcome = driver.step(work=tuple(client.work() for client in running))
        for client, result in zip(running, outcome.results, strict=True):
            if result.status is WorkStatus.DONE:
                client.apply(result)
        still = [client for client in running if client.finish_reason is None]
        if any(result.status is WorkStatus.NO_BLOCKS for result in outcome.results) and still:
            num_preemptions += 1
            waiting.append(still.pop())
            driver.step(releases=(waiting[-1].ref(),))
            waiting[-1].epoch += 1
        elif waiting and len(still) < len(running):
            still.append(waiting.pop())
            driver.admit(still[-1])
        running = still or waiting[:1]
        if not still and waiting:
            driver.admit(waiting.pop(0))
    return num_preemptions


@pytest.mark.parametrize(("num_blocks", "is_tight"), [(8, True), (12, True), (64, False)])
def test_every_pool_size_gives_the_same_tokens(num_blocks: int, is_tight: bool) -> None:
    sampling = SamplingParams(1.0, seed=5, max_tokens=20)
    clients = []
    for index in range(3):
        prompt = [index, *PROMPT]
        text = KnownText(prompt + plain_decode(MODEL, prompt, sampling)[0], MODEL.vocab_size)
        clients.append(Client(f"r{index}", prompt, sampling, text.branchy))
    driver = Driver(fake_engine(num_blocks=num_blocks, num_evictable_blocks=2)[0])
    assert (run_with_preemption(driver, clients) > 0) == is_tight
    for client in clients:
        wanted = plain_decode(MODEL, client.prompt, sampling)
        assert (client.committed, client.finish_reason) == wanted


def test_garbage_trees_are_counted_and_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    engine, _ = fake_engine()
    driver = Driver(engine)
    text = text_of(PROMPT)
    client = Client("a", PROMPT, SamplingParams(0.0, max_tokens=6), text.garbage)
    with caplog.at_level(logging.WARNING):
        driver.run(client)
    assert client.tokens == text.text[: len(PROMPT) + 6]
    assert engine.planner.num_dropped_trees == 6
    assert client.num_accepted == 0
    assert 0 < len(caplog.records) < 6


def test_a_tree_is_ignored_while_the_prompt_is_not_computed() -> None:
    driver = Driver(fake_engine()[0])
    client = Client("a", PROMPT, drafter=text_of(PROMPT).oracle, max_pending_rows=4)
    driver.admit(client)
    computed = []
    for _ in range(3):
        outcome = driver.work(client)
        computed.append((outcome.num_rows, outcome.results[0].num_computed_tokens))
    assert computed == [(4, 4), (4, 8), (1 + 4, 9 + 4)]


@pytest.mark.parametrize("max_tokens", range(1, 8))
def test_no_node_is_verified_that_could_not_be_followed(max_tokens: int) -> None:
    engine, runner = fake_engine()
    driver = Driver(engine)
    text = text_of(PROMPT)
    client = Client("a", PROMPT, SamplingParams(0.0, max_tokens=max_tokens), text.oracle)
    driver.run(client)
    assert client.tokens == text.text[: len(PROMPT) + max_tokens]
    assert client.finish_reason is FinishReason.LENGTH
    # One row a prompt token, one a committed token but for the last, and no more.
    rows = sum(batch.num_rows for batch in runner.batches)
    assert rows == len(PROMPT) + max_tokens - 1


def test_accepted_nodes_keep_the_numbers_of_the_tree_that_was_sent() -> None:
    """Nodes that are cut for their depth leave gaps in the numbering."""
    driver = Driver(fake_engine()[0])
    text = text_of(PROMPT)
    right = text.following(PROMPT)
    # A deep wrong chain first; the right nodes are the fourth and fifth.
    tree = tree_of([text.wrong(right[0])] * 3 + right[:2], [0, 1, 2, 0, 4])
    client = Client("a", PROMPT, SamplingParams(0.0, max_tokens=3), lambda tokens: tree)
    driver.admit(client)
    outcome = driver.work(client)
    assert outcome.results[0].accepted_nodes == (4, 5)
    assert outcome.num_rows == len(PROMPT) + 4


def test_the_largest_trees_are_cut() -> None:
    engine, _ = fake_engine(max_tree_nodes=3)
    driver = Driver(engine)
    client = Client("a", PROMPT, drafter=text_of(PROMPT).oracle)
    driver.admit(client)
    outcome = driver.work(client)
    assert outcome.num_rows == len(PROMPT) + 3
    assert client.num_accepted == 3


@pytest.mark.parametrize("ignore_eos", [False, True])
@pytest.mark.parametrize("offset", range(6))
def test_eos_at_each_offset_of_an_accepted_run(offset: int, ignore_eos: bool) -> None:
    """A token that plain decoding really gives is declared the end."""
    text = text_of(PROMPT)
    eos = frozenset({text.text[len(PROMPT) + offset]})
    sampling = SamplingParams(0.0, max_tokens=9, ignore_eos=ignore_eos)
    driver = Driver(fake_engine(eos_token_ids=eos)[0])
    client = Client("a", PROMPT, sampling, text.oracle)
    driver.run(client)
    wanted = plain_decode(MODEL, PROMPT, sampling, eos_token_ids=eos)
    assert (client.committed, client.finish_reason) == wanted
    assert (client.finish_reason is FinishReason.LENGTH) == ignore_eos
    assert driver.engine.pool.num_in_use == 0


def test_a_stop_token_counts_even_if_eos_is_ignored() -> None:
    text = text_of(PROMPT)
    stop = text.text[len(PROMPT) + 1]
    sampling = SamplingParams(0.0, max_tokens=9, ignore_eos=True, stop_token_ids=frozenset({stop}))
    driver = Driver(fake_engine(eos_token_ids=frozenset({stop}))[0])
    client = Client("a", PROMPT, sampling, text.oracle)
    driver.admit(client)
    outcome = driver.work(client)
    assert outcome.results[0].stop_token_id == stop == client.committed[-1]


def test_the_model_s_length_ends_a_sequence() -> None:
    driver = Driver(fake_engine(max_model_len=17)[0])
    client = Client("a", PROMPT, GREEDY, text_of(PROMPT).oracle)
    driver.run(client)
    assert (len(client.tokens), client.finish_reason) == (17, FinishReason.LENGTH)


def test_max_tokens_counts_tokens_committed_before_a_readmission() -> None:
    driver = Driver(fake_engine()[0])
    client = Client("a", PROMPT, SamplingParams(0.0, max_tokens=5))
    driver.admit(client)
    driver.work(client)
    driver.work(client)
    driver.step(releases=(client.ref(),))
    client.epoch += 1
    driver.run(client)
    assert len(client.committed) == 5


def test_top_k_reports_each_row_of_the_step_before_and_only_computed_ones() -> None:
    engine, _ = fake_engine()
    driver = Driver(engine)
    chunked = Client("chunked", PROMPT, max_pending_rows=2)
    drafting = Client("drafting", PROMPT, drafter=text_of(PROMPT).branchy)
    driver.admit(chunked, drafting)
    first = driver.work(chunked, drafting, top_k=3)
    assert [result.row_token_ids for result in first.results] == [(), ()]
    engine.rank_successors()
    outcome = driver.step(
        work=(chunked.work(), drafting.work(), replace(chunked.work(), request_id="x"))
    )
    without_rows, rows, missing = outcome.results
    assert without_rows.row_token_ids == missing.row_token_ids == ()
    assert without_rows.top_token_ids == missing.top_token_ids == ()
    tree = drafting.drafter(PROMPT)
    assert rows.row_token_ids == (PROMPT[-1], *tree.token_ids)
    top = np.array(rows.top_token_ids).reshape(-1, 3)
    for node in range(-1, len(tree)):
        path = [tree.token_ids[i] for i in tree.ancestors(node)] if node >= 0 else []
        logits = MODEL.next_logits(PROMPT + path)
        assert top[node + 1].tolist() == np.argsort(-logits, kind="stable")[:3].tolist()


def test_rows_that_were_not_ranked_in_time_are_not_told() -> None:
    engine, _ = fake_engine()
    driver = Driver(engine)
    client = Client("a", PROMPT)
    driver.admit(client)
    driver.work(client, top_k=3)
    engine.rank_successors()
    assert driver.work(client, top_k=3).results[0].row_token_ids == (PROMPT[-1],)
    # The model has run again when this one comes.
    assert driver.work(client).results[0].row_token_ids == ()
    engine.rank_successors()
    assert driver.work(client).results[0].row_token_ids == ()


def test_a_failed_forward_pass_changes_no_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, runner = fake_engine()
    driver = Driver(engine)
    client = Client("a", PROMPT, drafter=text_of(PROMPT).oracle)
    driver.admit(client)

    def fail(batch: object) -> None:
        raise RuntimeError("device lost")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "forward", fail)
        with pytest.raises(RuntimeError):
            driver.work(client)
    engine.check()
    driver.work(client)
    assert client.tokens == text_of(PROMPT).text[: len(client.tokens)]


def test_a_failure_after_the_forward_pass_drops_the_sequences_it_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, runner = fake_engine()
    driver = Driver(engine)
    client, other = Client("a", PROMPT, drafter=text_of(PROMPT).branchy), Client("b", [1, 2])
    driver.admit(client, other)

    def fail(*args: object) -> None:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(runner.kv, "move", fail)
        with pytest.raises(RuntimeError):
            driver.work(client)
    engine.check()
    assert engine.sequences.get("a") is None
    driver.work(other)
    client.epoch += 1
    driver.admit(client)
    driver.work(client)
    assert client.tokens == text_of(PROMPT).text[: len(client.tokens)]


def test_a_row_without_a_number_ends_its_sequence_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, runner = fake_engine()
    driver = Driver(engine)
    sick, well = Client("sick", PROMPT), Client("well", [1, 2])
    driver.admit(sick, well)
    forward = runner.forward

    def poisoned(batch):  # type: ignore[no-untyped-def]
        logits = forward(batch)
        logits[0] = np.nan
        return logits

    monkeypatch.setattr(runner, "forward", poisoned)
    driver.work(sick, well)
    assert (sick.finish_reason, sick.committed) == (FinishReason.ERROR, [])
    assert (well.finish_reason, len(well.committed)) == (None, 1)
    assert engine.sequences.get("sick") is None


def test_a_thousand_mixed_requests_leave_every_block_free() -> None:
    """Finished, stopped, cancelled, preempted and garbage-fed requests."""
    engine, _ = fake_engine(num_blocks=48, num_evictable_blocks=0)
    driver = Driver(engine)
    chance = random.Random(3)
    text = text_of(PROMPT)
    live: list[Client] = []
    for number in range(1000):
        stop = frozenset({chance.randrange(16)}) if chance.random() < 0.3 else frozenset()
        sampling = SamplingParams(
            chance.choice([0.0, 1.0]), seed=number, max_tokens=1 + number % 7, stop_token_ids=stop
        )
        drafter = chance.choice([text.garbage, text.random, text.empty])
        prompt = PROMPT[: chance.randint(1, 9)]
        live.append(Client(f"r{number}", prompt, sampling, drafter))
        driver.step(admissions=(live[-1].admission(),))
        outcome = driver.step(work=tuple(client.work() for client in live))
        for client, result in zip(live, outcome.results, strict=True):
            if result.status is WorkStatus.DONE:
                client.apply(result)
        if chance.random() < 0.3 or len(live) > 5:
            cancelled = live.pop(chance.randrange(len(live)))
            driver.step(releases=(cancelled.ref(),))
        live = [client for client in live if client.finish_reason is None]
    driver.step(releases=tuple(client.ref() for client in live))
    assert engine.pool.num_free == engine.pool.num_blocks
    assert len(engine.sequences) == 0


def test_an_empty_step_is_answered() -> None:
    outcome = Driver(fake_engine()[0]).step()
    assert (outcome.num_rows, outcome.forward_ns, outcome.results) == (0, 0, ())


def test_an_empty_tree_and_no_tree_are_the_same() -> None:
    engine, runner = fake_engine()
    driver = Driver(engine)
    client = Client("a", PROMPT, drafter=lambda tokens: TokenTree(source_names=("s",)))
    driver.admit(client)
    driver.work(client)
    assert runner.batches[-1].num_rows == len(PROMPT)
