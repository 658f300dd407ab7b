"""Pruned passes give the tokens of plain decoding, and leave nothing behind that anybody reads."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.sampling import SamplingParams
from dspark.step import StepOutcome
from dspark.verifier.engine import Engine
from harness.cut_passes import Always, AtRandom, CuttingFakeRunner, From, Ready, pruning_engine
from harness.fake_model import FakeModel
from harness.scripted_drafters import NAMES, KnownText, tree_of
from harness.verifier_engine import Client, Driver, fake_engine, plain_decode

MODEL = FakeModel()
EOS = frozenset({3})
EVERYTHING = -1.0
NOTHING = 1e9

JUDGES: dict[str, Callable[[], Ready]] = {
    "everything": lambda: From(EVERYTHING),
    "all_but_the_best": lambda: From(1e-9),
    "far_ones": lambda: From(2.0),
    "at_random": lambda: AtRandom(0.4),
    "nothing": lambda: From(NOTHING),
}


class KvDriver(Driver):
    """After each step every live sequence has the K/V of a plain prefill of its tokens."""

    def step(self, **plan: object) -> StepOutcome:
        outcome = super().step(**plan)
        for sequence in self.engine.sequences:
            count = sequence.num_computed
            digests = self.kv.digests[sequence.table.slots[:count]]
            wanted = MODEL.digests_of(sequence.tokens.ids[:count].tolist())
            assert digests.tolist() == wanted.tolist()
        return outcome

    def __init__(self, engine: Engine, runner: CuttingFakeRunner) -> None:
        super().__init__(engine)
        self.kv = runner.kv


def prompt_of(seed: int, size: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(MODEL.vocab_size) for _ in range(size)]


def client(name: str, prompt: list[int], sampling: SamplingParams, drafter: str, **kw) -> Client:
    text = prompt + plain_decode(MODEL, prompt, sampling, eos_token_ids=EOS)[0]
    return Client(name, prompt, sampling, KnownText(text, MODEL.vocab_size).all()[drafter], **kw)


def assert_right(request: Client) -> None:
    expected = plain_decode(MODEL, request.prompt, request.sampling, eos_token_ids=EOS)
    assert (request.committed, request.finish_reason) == expected


@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.3])
@pytest.mark.parametrize("drafter", NAMES)
@pytest.mark.parametrize("judge", JUDGES)
def test_tokens_are_those_of_plain_decoding(judge: str, drafter: str, temperature: float) -> None:
    driver = KvDriver(*pruning_engine(JUDGES[judge](), noise=1.0))
    sampling = SamplingParams(temperature=temperature, seed=7, max_tokens=24, ignore_eos=True)
    request = client("a", prompt_of(1, 9), sampling, drafter)
    driver.run(request)
    assert_right(request)


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Ready, int, list[Client]]:
    """A judge, audits, and requests with shared prefixes, any sampling and any drafter."""
    judge = draw(st.sampled_from(list(JUDGES.values())))()
    requests = []
    for index in range(draw(st.integers(1, 4))):
        prompt = prompt_of(draw(st.integers(0, 1)), draw(st.integers(1, 20)))
        sampling = SamplingParams(
            temperature=draw(st.sampled_from([0.0, 0.8, 1.3])),
            top_k=draw(st.sampled_from([0, 3])),
            seed=draw(st.integers(0, 3)),
            max_tokens=draw(st.integers(1, 20)),
            ignore_eos=draw(st.booleans()),
        )
        more = {
            "max_pending_rows": draw(st.sampled_from([1, 3, 100])),
            "use_prefix_cache": draw(st.booleans()),
        }
        drafter = draw(st.sampled_from(NAMES))
        requests.append(client(f"r{index}", prompt, sampling, drafter, **more))
    return judge, draw(st.sampled_from([0, 1, 3])), requests


@given(scenarios(), st.randoms(use_true_random=False))
def test_batches_chunks_prefix_hits_and_preemption_change_nothing(
    scenario: tuple[Ready, int, list[Client]], chance: random.Random
) -> None:
    judge, audit_interval, requests = scenario
    engine, runner = pruning_engine(judge, Always(audit_interval), noise=1.0, eos_token_ids=EOS)
    driver = KvDriver(engine, runner)
    waiting, running = list(requests), []
    while waiting or running:
        if waiting and (not running or chance.random() < 0.4):
            running.append(waiting.pop())
            driver.admit(running[-1])
        if chance.random() < 0.15:
            victim = chance.choice(running)
            driver.step(releases=(victim.ref(),))
            victim.epoch += 1
            driver.admit(victim)
        driver.work(*[request for request in running if chance.random() < 0.8])
        running = [request for request in running if request.finish_reason is None]
    for request in requests:
        assert_right(request)
    assert len(engine.sequences) == 0 and engine.pool.num_in_use == 0


def test_dropping_what_is_wrong_loses_nothing_and_saves_rows() -> None:
    """The cut is told the truth: each row's best token stays, which is what a greedy draw takes."""
    engine, _ = pruning_engine(From(1e-9))
    driver = Driver(engine)
    sampling = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    request = client("a", prompt_of(2, 6), sampling, "branchy")
    driver.run(request)
    assert request.num_accepted == 32
    # Of three nodes at each of four levels, in eight passes, only the right one stays.
    assert engine.pruner.books.num_pruned_rows == 8 * 8


@pytest.mark.parametrize("temperature", [0.8, 1.3])
def test_the_noise_of_the_draw_is_part_of_a_margin(temperature: float) -> None:
    """Where the truth is told, the best token with noise is the one that is drawn."""
    driver = Driver(pruning_engine(From(1e-9))[0])
    sampling = SamplingParams(temperature=temperature, seed=5, max_tokens=40, ignore_eos=True)
    request = client("a", prompt_of(2, 6), sampling, "branchy")
    driver.run(request)
    assert request.num_accepted == 32
    assert_right(request)


def test_a_step_says_how_many_rows_left() -> None:
    driver = Driver(pruning_engine(From(EVERYTHING))[0])
    sampling = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    requests = [client(name, prompt_of(3, 6), sampling, "oracle") for name in ("a", "b")]
    driver.admit(*requests)
    driver.work(*requests)
    outcome = driver.work(*requests)
    assert (outcome.num_rows, outcome.num_pruned_rows) == (10, 8)
    assert [result.accepted_nodes for result in outcome.results] == [(), ()]
    assert [len(result.committed_token_ids) for result in outcome.results] == [1, 1]


def test_accepted_nodes_are_numbered_as_they_were_proposed() -> None:
    engine, _ = pruning_engine(From(1e-9))
    driver = Driver(engine)
    sampling = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    prompt = prompt_of(4, 5)
    right = plain_decode(MODEL, prompt, sampling)[0]
    wrong = [(token + 1) % MODEL.vocab_size for token in right]
    # After the first token is committed, two wrong nodes stand before each right one.
    tree = tree_of([wrong[1], right[1], wrong[2], right[2]], [0, 0, 2, 2])
    request = Client("a", prompt, sampling)
    driver.admit(request)
    driver.work(request)
    (result,) = driver.step(work=(replace(request.work(), tree=tree),), top_k=2).results
    assert result.accepted_nodes == (2, 4)
    assert result.committed_token_ids == tuple(right[1:4])
    engine.rank_successors()
    request.apply(result)
    (result,) = driver.work(request).results
    assert result.row_token_ids == (right[0], right[1], right[2])
    assert len(result.top_token_ids) == 2 * 3


def test_audits_drop_nothing_and_count_what_would_have_been_lost() -> None:
    sampling = SamplingParams(temperature=0.0, max_tokens=41, ignore_eos=True)
    for margin, lost in ((EVERYTHING, 32), (NOTHING, 0)):
        judge = From(margin)
        engine, _ = pruning_engine(judge, Always(audit_interval=1))
        driver = Driver(engine)
        request = client("a", prompt_of(2, 6), sampling, "branchy")
        driver.admit(request)
        driver.work(request)
        driver.finish(request)
        books = engine.pruner.books
        assert (books.num_audits, books.num_pruned_rows) == (8, 0)
        assert (books.num_audited_tokens, books.num_lost_tokens) == (32, lost)
        assert judge.num_learnt == books.num_audits


def test_audits_before_a_judge_is_ready_count_for_nothing() -> None:
    judge, occasions = From(EVERYTHING), Noting(audit_interval=1)
    judge.is_ready = False
    engine, _ = pruning_engine(judge, occasions)
    sampling = SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True)
    Driver(engine).run(client("a", prompt_of(2, 6), sampling, "branchy"))
    books = engine.pruner.books
    assert (books.num_audits, judge.num_learnt) == (4, 4)
    assert (books.num_audited_tokens, books.num_lost_tokens, occasions.noted) == (0, 0, [])
    judge.is_ready = True
    Driver(engine).run(client("b", prompt_of(3, 6), sampling, "branchy"))
    assert books.num_audited_tokens == books.num_lost_tokens > 0
    assert occasions.noted[0] == (12, 12)


class Noting(Always):
    """Keeps how many nodes passes had, and how many of them would have left."""

    def __init__(self, audit_interval: int) -> None:
        super().__init__(audit_interval)
        self.noted: list[tuple[int, int]] = []

    def note(self, layer: int, num_nodes: int, num_dropped: int, choosing_ms: float) -> None:
        self.noted.append((num_nodes, num_dropped))


def test_a_policy_that_is_off_runs_the_same_passes() -> None:
    sampling = SamplingParams(temperature=0.0, max_tokens=30, ignore_eos=True)
    seen = []
    for engine, runner in (fake_engine(), pruning_engine(From(NOTHING), Never())):
        driver = Driver(engine)
        driver.run(client("a", prompt_of(2, 6), sampling, "branchy"))
        seen.append([batch.token_ids.tolist() for batch in runner.batches])
        assert engine.pruner.books.num_pruned_rows == 0
    assert seen[0] == seen[1]


class Never(Always):
    """No cut at all."""

    def next(self, num_rows: int, num_nodes: int, ready: object) -> None:
        return None
