"""Structured output over the whole stack: speculation on equals off, and the text is what it must
be, for every form, alone and together, after preemptions too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dspark.errors import InvalidArgument
from dspark.sampling import FinishReason, SamplingParams
from dspark.structured_output import StructuredOutput as Output
from dspark.verifier.config import VerifierConfig
from harness.known_outputs import KnownOutputs
from harness.running_scheduler import Streamed
from harness.scripted_drafters import SCRIPTS
from harness.scripted_sources import ScriptedSource
from harness.served import make_tiny_model_dir
from harness.tiny_models import save_tiny_model
from harness.whole_stack import Job, whole_stack

VOCAB_SIZE, END = 258, 256
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "sizes": {"type": "array", "items": {"enum": ["small", "large"]}, "maxItems": 2},
        "is_open": {"type": "boolean"},
    },
    "required": ["name", "sizes", "is_open"],
    "additionalProperties": False,
}
CHOICES = ("a long beginning, then one", "a long beginning, then another", "none")
# Free text, and what has to follow a mark, as where functions are strict.
MARKED = """
start: (lead block)* TEXT
lead[lazy]: LEAD
LEAD: /(?s:.*)[a-m]/
block: "(" /[0-9]{1,3}/ ")"
TEXT: /(?s:.*)/
"""
OUTPUTS = (
    Output.json_schema(SCHEMA),
    Output.regex(r"(ab|cd){2}: [0-9]{1,3}!"),
    Output.choice(CHOICES),
    Output.grammar('start: "SELECT " NAME " FROM " NAME\nNAME: /[a-c]{1,2}/'),
    Output.grammar(MARKED),
)
PROMPTS = (b"tell me", b"x", b"one two one two one two")


def load(config: VerifierConfig, progress: Callable[[str], None]):  # type: ignore[no-untyped-def]
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


def config_for(model_dir: Path, kv_tokens: int) -> VerifierConfig:
    return VerifierConfig(str(model_dir), "127.0.0.1:0", kv_tokens=kv_tokens, block_size=8)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model_dir(tmp_path_factory.mktemp("model"))


def make_jobs(outputs: Sequence[Output | None], max_tokens: int = 90) -> list[Job]:
    return [
        Job(
            tuple(PROMPTS[index % len(PROMPTS)]),
            SamplingParams(temperature, seed=index, max_tokens=max_tokens, structured=output),
        )
        for temperature in (0.0, 0.8)
        for index, output in enumerate(outputs)
    ]


def text_of(streamed: Streamed) -> str:
    return bytes(t for t in streamed.token_ids if t < 256).decode()


def assert_same(given: Sequence[Streamed], plain: Sequence[Streamed]) -> None:
    for index, (one, other) in enumerate(zip(given, plain, strict=True)):
        assert one.token_ids == other.token_ids, f"job {index}"
        assert one.finish_reason == other.finish_reason, f"job {index}"


@pytest.mark.parametrize("name", ["oracle", "random", "adversary", "branchy", "empty", "garbage"])
async def test_any_source_gives_the_plain_tokens(model_dir: Path, name: str) -> None:
    # Requests without a grammar run beside the others.
    jobs, known = make_jobs((*OUTPUTS, None)), KnownOutputs()
    source = ScriptedSource(name, SCRIPTS[name], known.truth, VOCAB_SIZE)
    async with whole_stack(load, config_for(model_dir, 4096), [source]) as stack:
        plain = await stack.run_alone(jobs)
        known.learn_all(jobs, plain)
        together = await stack.run_together(jobs)
        assert_same(together, plain)
        assert_same(await stack.run_together(jobs, use_prefix_cache=True), plain)
        forced = [s.speculation.sources.get("grammar") for s in together]
        assert not plain[0].speculation.accepted
        assert sum(counts.accepted for counts in forced if counts) > 0 or name == "garbage"
        await stack.check_idle()
        books = stack.engine.structures.books
        assert (books.num_misses, stack.engine.structures.num_cached) == (5, 5)
    for first in (0, len(OUTPUTS) + 1):
        Draft202012Validator(SCHEMA).validate(json.loads(text_of(plain[first])))
        assert re.fullmatch(r"(ab|cd){2}: [0-9]{1,3}!", text_of(plain[first + 1]))
        assert text_of(plain[first + 2]) in CHOICES
        assert plain[first].finish_reason is FinishReason.STOP
        free = bytes(t for t in plain[first + 4].token_ids if t < 256).decode(errors="ignore")
        assert re.search("[a-m]", free)
        assert re.fullmatch(r"([^a-m]|[a-m]\([0-9]{1,3}\))*([a-m](\([0-9]{0,3})?)?", free)


async def test_preemptions_rebuild_the_place_in_the_grammar(model_dir: Path) -> None:
    jobs, known = make_jobs(OUTPUTS[:3] * 2), KnownOutputs()
    source = ScriptedSource("random", SCRIPTS["random"], known.truth, VOCAB_SIZE)
    async with whole_stack(load, config_for(model_dir, 176), [source]) as stack:
        plain = await stack.run_alone(jobs)
        known.learn_all(jobs, plain)
        assert_same(await stack.run_together(jobs), plain)
        assert (await stack.client.status()).num_preemptions > 0
        await stack.check_idle()


async def test_a_model_without_a_tokenizer_refuses_and_goes_on(tmp_path: Path) -> None:
    model_dir = save_tiny_model("llama", tmp_path, VOCAB_SIZE)
    source = ScriptedSource("empty", SCRIPTS["empty"], KnownOutputs().truth, VOCAB_SIZE)
    async with whole_stack(load, config_for(model_dir, 512), [source]) as stack:
        with pytest.raises(InvalidArgument, match="structured_outputs"):
            await stack.run(make_jobs(OUTPUTS)[0])
        plain = await stack.run(make_jobs([None], max_tokens=4)[0])
        assert len(plain.token_ids) == 4
        await stack.check_idle()
