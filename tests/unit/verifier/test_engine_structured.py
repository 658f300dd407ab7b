"""Sequences with a grammar: the same tokens with any trees, and none for what it forbids."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from dspark.errors import InvalidArgument
from dspark.grammars.refusal import GrammarRefused
from dspark.sampling import FinishReason, SamplingParams
from dspark.step import WorkStatus
from dspark.structured_output import StructuredOutput
from dspark.token_tree import chain
from dspark.verifier.structure.compiler import GrammarCompiler
from dspark.verifier.structure.matcher import Matcher
from harness.fake_model import FakeModel
from harness.finite_language import FiniteMatcher
from harness.scripted_drafters import NAMES, KnownText
from harness.verifier_engine import Client, Driver, fake_engine

VOCAB, END = 16, 15
# Choices of one to three tokens between runs without a choice.
WORDS = [
    (1, 2, a, 3, 4, b, *tail)
    for a in (5, 6, 7)
    for b in (8, 9)
    for tail in ((), (10, 11, 12, 13), (10, 11, 14, 5, 6, 7, 8))
]
ANY = StructuredOutput.regex("any")
BAD = StructuredOutput.regex("bad")


def compile_finite(output: StructuredOutput) -> Matcher:
    if output == BAD:
        raise GrammarRefused("is bad")
    return FiniteMatcher(WORDS, END)


def sampling(temperature: float, seed: int = 0, **fields: object) -> SamplingParams:
    given = {"max_tokens": 20, "structured": ANY, **fields}
    return SamplingParams(temperature=temperature, seed=seed, **given)  # type: ignore[arg-type]


def driver(max_cached: int = 4, **settings: object) -> Driver:
    structures = GrammarCompiler(compile_finite, max_cached)
    engine, _ = fake_engine(
        model=FakeModel(VOCAB),
        eos_token_ids=frozenset({END}),
        structures=structures,
        **settings,  # type: ignore[arg-type]
    )
    return Driver(engine)


def plain(prompt: Sequence[int], params: SamplingParams) -> Client:
    client = Client("plain", list(prompt), params)
    driver().run(client)
    return client


@pytest.mark.parametrize("temperature", [0.0, 0.8, 3.0])
def test_plain_decoding_gives_a_word_and_stops(temperature: float) -> None:
    for seed in range(20):
        client = plain([3, seed % VOCAB, 1], sampling(temperature, seed))
        text = tuple(client.committed)
        assert client.finish_reason is FinishReason.STOP
        assert (text[:-1] if text[-1] == END else text) in WORDS


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("max_forced", [0, 8])
@pytest.mark.parametrize("name", NAMES)
def test_any_trees_give_the_plain_tokens(name: str, max_forced: int, temperature: float) -> None:
    num_accepted_forced = 0
    for seed in range(4):
        prompt, params = [2, seed, 4, 4], sampling(temperature, seed)
        known = plain(prompt, params)
        drafter = getattr(KnownText(known.tokens, VOCAB), name)
        client = Client("r", prompt, params, drafter, max_forced_nodes=max_forced)
        driver().run(client)
        assert client.committed == known.committed
        assert client.finish_reason is known.finish_reason
        num_accepted_forced += client.num_accepted_forced
    assert num_accepted_forced > 0 if max_forced and name in ("empty", "adversary") else True
    assert num_accepted_forced == 0 or max_forced


def test_forbidden_nodes_cost_no_row() -> None:
    stack = driver()
    client = Client("r", [1], sampling(0.0), lambda token_ids: chain([9, 9, 9], "s"))
    stack.admit(client)
    stack.engine.structures.wait(5)
    outcome = stack.work(client)
    assert outcome.num_rows == 1
    assert stack.engine.structures.books.num_forbidden_nodes == 3


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_an_admission_anew_goes_on_where_it_was(count: int) -> None:
    known = plain([5, 5], sampling(0.8, 3))
    again = Client("again", known.prompt, known.sampling, epoch=1, max_forced_nodes=4)
    again.committed = known.committed[:count]
    driver().run(again)
    assert again.committed == known.committed


def test_an_admission_of_a_whole_text_ends_without_a_token() -> None:
    client = Client("r", [1], sampling(0.0))
    client.committed = [1, 2, 5, 3, 4, 8, 10, 11, 12, 13]
    stack = driver()
    stack.run(client)
    assert (len(client.committed), client.finish_reason) == (10, FinishReason.STOP)


def test_ends_that_are_ignored_end_only_what_is_whole() -> None:
    for seed in range(10):
        client = plain([seed], sampling(3.0, seed, ignore_eos=True))
        assert END not in client.committed
        assert len(client.committed) > 6
        assert client.finish_reason is FinishReason.STOP


def test_a_stop_token_and_a_length_end_it_as_ever() -> None:
    stopped = plain([1], sampling(0.0, stop_token_ids=frozenset({2})))
    assert (stopped.committed, stopped.finish_reason) == ([1, 2], FinishReason.STOP)
    cut = plain([1], sampling(0.0, max_tokens=3))
    assert (len(cut.committed), cut.finish_reason) == (3, FinishReason.LENGTH)


def test_a_grammar_that_compiles_holds_up_nobody() -> None:
    may_end = threading.Event()

    def compile_late(output: StructuredOutput) -> Matcher:
        assert may_end.wait(30)
        return compile_finite(output)

    engine, _ = fake_engine(
        model=FakeModel(VOCAB), structures=GrammarCompiler(compile_late, max_cached=4)
    )
    stack = Driver(engine)
    late = Client("late", [1, 2, 3, 4, 5], sampling(0.0))
    other = Client("other", [7, 7], SamplingParams(temperature=0.0, max_tokens=6))
    stack.admit(late, other)
    stack.finish(other)
    assert late.committed == []
    outcome = stack.work(late)
    assert outcome.results[0].status is WorkStatus.DONE
    # Its prompt is computed meanwhile, but for the token whose row is masked.
    assert outcome.results[0].num_computed_tokens == 4
    may_end.set()
    stack.finish(late)
    assert tuple(late.committed) in WORDS or late.committed[-1] == END


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "comes back"])
def test_a_request_may_leave_while_its_grammar_compiles(leaves: bool) -> None:
    may_end = threading.Event()

    def compile_late(output: StructuredOutput) -> Matcher:
        assert may_end.wait(30)
        return compile_finite(output)

    structures = GrammarCompiler(compile_late, max_cached=4)
    engine, _ = fake_engine(model=FakeModel(VOCAB), structures=structures)
    stack = Driver(engine)
    client = Client("r", [1, 2, 3], sampling(0.0), lambda token_ids: chain([9, 9], "s"))
    stack.admit(client)
    stack.work(client)
    assert client.committed == []
    stack.step(releases=(client.ref(),))
    assert (len(engine.sequences), engine.pool.num_in_use) == (0, 0)
    if not leaves:
        client.epoch += 1
        stack.admit(client)
    may_end.set()
    structures.wait(5)
    if not leaves:
        stack.finish(client)
        text = tuple(client.committed)
        assert (text[:-1] if text[-1] == END else text) in WORDS
    assert (len(engine.sequences), engine.pool.num_in_use) == (0, 0)
    assert structures.num_cached == 1


def test_a_grammar_that_does_not_compile_ends_its_own_request() -> None:
    stack = driver()
    bad = Client("bad", [1, 2], sampling(0.0, structured=BAD))
    good = Client("good", [1, 2], sampling(0.0))
    stack.run(bad, good)
    assert (bad.committed, bad.finish_reason) == ([], FinishReason.ERROR)
    assert good.finish_reason is FinishReason.STOP
    assert not len(stack.engine.sequences)


def test_grammars_are_compiled_once_and_the_oldest_are_forgotten() -> None:
    stack = driver(max_cached=2)
    books = stack.engine.structures.books
    names = ["a", "b", "a", "c", "a", "b"]
    for index, name in enumerate(names):
        output = StructuredOutput.regex(name)
        stack.run(Client(f"r{index}", [1], sampling(0.0, structured=output)))
    assert (books.num_hits, books.num_misses) == (2, 4)
    assert stack.engine.structures.num_cached == 2
    assert books.compile_s.count == 4


def test_a_model_without_a_tokenizer_refuses_by_name() -> None:
    engine, _ = fake_engine()
    with pytest.raises(InvalidArgument, match=r"sampling\.structured"):
        Driver(engine).admit(Client("r", [1], sampling(0.0)))
