"""Grammars of strangers are compiled in a process that may die of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dspark.errors import InternalError, Overloaded
from dspark.gateway import grammar_checker
from dspark.gateway.grammar_checker import TOO_LARGE, TOO_SLOW, GrammarChecker
from dspark.gateway.grammar_worker import output_from_line, output_to_line
from dspark.structured_output import StructuredOutput as Output
from harness.byte_tokenizer import write_model_dir

GOOD = Output.regex("[a-z]+")


@pytest.fixture
async def checker(tmp_path: Path) -> AsyncIterator[GrammarChecker]:
    checker = GrammarChecker(write_model_dir(tmp_path) / "tokenizer.json")
    yield checker
    await checker.close()


def many_rules(count: int) -> Output:
    """A chain of rules, each inside the one before."""
    rules = "\n".join(f"r{i}: r{i + 1}" for i in range(count))
    return Output.grammar(f'start: r0\n{rules}\nr{count}: "a"')


def many_fields(count: int) -> Output:
    return Output.json_schema(
        {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(count)}}
    )


def doubled(count: int) -> Output:
    """Each terminal is twice the next one."""
    rules = "\n".join(f"R{i}: R{i + 1} R{i + 1}" for i in range(count))
    return Output.grammar(f'start: R0\n{rules}\nR{count}: "a"')


def test_outputs_cross_the_pipe_as_they_are() -> None:
    for output in (GOOD, Output.choice(["é\n", "\0"]), Output.json_object(any_whitespace=True)):
        line = output_to_line(output)
        assert line.count(b"\n") == 1
        assert output_from_line(line.decode()) == output


async def test_good_and_bad_ones_and_what_is_remembered(checker: GrammarChecker) -> None:
    assert checker.worker_id is None
    assert await checker.problem_of(GOOD) == ""
    worker_id = checker.worker_id
    assert "unclosed character class" in await checker.problem_of(Output.regex("["))
    await checker.close()
    # Both answers are known without a process.
    assert await checker.problem_of(GOOD) == ""
    assert "unclosed" in await checker.problem_of(Output.regex("["))
    assert checker.worker_id is None
    assert worker_id is not None


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (many_rules(12_000), TOO_LARGE),
        (many_fields(9_000), TOO_SLOW),
        (Output.json_schema('{"items":' * 5000 + "{}" + "}" * 5000), "nested too deeply"),
        (Output.regex("(" * 50_000 + "a" + ")" * 50_000), "cannot be honoured"),
        (Output.json_schema({"allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]}
                                       for i in range(24)]}), "schema too large"),
    ],
    ids=["deep rules", "many fields", "deep schema", "deep regex", "exponential"],
)  # fmt: skip
async def test_hostile_ones_are_refused_and_harm_nobody(
    checker: GrammarChecker, output: Output, problem: str
) -> None:
    found = await checker.problem_of(output)
    # Which limit is met first, of time or of memory, is the machine's.
    assert problem in found or (problem == TOO_SLOW and found == TOO_LARGE)
    assert await checker.problem_of(GOOD) == ""


async def test_exponential_terminals_are_refused(checker: GrammarChecker) -> None:
    problem = await checker.problem_of(doubled(64))
    assert problem == TOO_SLOW or "too big" in problem


async def test_a_caller_that_goes_away_leaves_the_worker_in_order(checker: GrammarChecker) -> None:
    assert await checker.problem_of(GOOD) == ""
    worker_id = checker.worker_id
    asking = asyncio.create_task(checker.problem_of(many_fields(50)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert "look-around" in await checker.problem_of(Output.regex("(?=a)b"))
    assert checker.worker_id == worker_id


async def test_one_output_is_compiled_once_for_all_that_wait(checker: GrammarChecker) -> None:
    problems = await asyncio.gather(*(checker.problem_of(GOOD) for _ in range(10)))
    assert problems == [""] * 10


async def test_too_many_that_wait_are_turned_away(
    checker: GrammarChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar_checker, "MAX_WAITING", 2)
    waiting = [asyncio.create_task(checker.problem_of(Output.regex(t))) for t in "ab"]
    while not checker.num_waiting:
        await asyncio.sleep(0.001)
    with pytest.raises(Overloaded):
        await checker.problem_of(Output.regex("c"))
    assert await asyncio.gather(*waiting) == ["", ""]


async def test_a_tokenizer_without_bytes_is_a_problem_of_every_output(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "nothing"}}))
    checker = GrammarChecker(tmp_path / "tokenizer.json")
    assert "tokenizer does not go with grammars" in await checker.problem_of(GOOD)
    assert checker.worker_id is None


async def test_a_worker_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    checker = GrammarChecker(tmp_path / "none.json")
    with pytest.raises(InternalError):
        await checker.problem_of(GOOD)
    assert checker.worker_id is None
