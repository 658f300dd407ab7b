"""Random JSON Schemas on the default model: every text parses and validates, speculation on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from jsonschema import Draft202012Validator
from tokenizers import Tokenizer

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.sampling import FinishReason, SamplingParams
from dspark.structured_output import StructuredOutput
from dspark.verifier.config import VerifierConfig
from harness.random_schemas import random_schema
from harness.real_model import default_model_dir
from harness.whole_stack import OFF, Job, WholeStack, whole_stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# Enough for the longest value that a schema allows.
MAX_TOKENS = 600
AT_ONCE = 8
NUM_SCHEMAS = 300
# Those of the ordinary run; the others take minutes.
FEW = range(40)
OTHERS = range(40, NUM_SCHEMAS)


def load(config: VerifierConfig, progress: Callable[[str], None]):  # type: ignore[no-untyped-def]
    from dspark.verifier.model.loader import load_model

    return load_model(config, progress)


@asynccontextmanager
async def real_stack() -> AsyncIterator[WholeStack]:
    model_dir = str(default_model_dir())
    names = ("recycle", "suffix", "ngram")
    sources = build_sources(CandidatesConfig(sources=names, model=model_dir))
    config = VerifierConfig(model_dir, "127.0.0.1:0", kv_tokens=8192)
    async with whole_stack(load, config, sources, policy="economic") as stack:
        yield stack


def job_of(tokenizer: Tokenizer, seed: int) -> Job:
    schema = random_schema(seed)
    prompt = f"<|im_start|>user\nGive an example of {json.dumps(schema)}<|im_end|>\n"
    ids = tokenizer.encode(prompt + "<|im_start|>assistant\n", add_special_tokens=False).ids
    output = StructuredOutput.json_schema(schema)
    sampling = SamplingParams(
        0.8 if seed % 2 else 0.0, seed=seed, max_tokens=MAX_TOKENS, structured=output
    )
    return Job(tuple(ids), sampling)


async def check_schemas(seeds: Sequence[int]) -> None:
    tokenizer = Tokenizer.from_file(str(default_model_dir() / "tokenizer.json"))
    async with real_stack() as stack:
        for first in range(0, len(seeds), AT_ONCE):
            some = seeds[first : first + AT_ONCE]
            streams = await stack.run_together([job_of(tokenizer, seed) for seed in some])
            for seed, streamed in zip(some, streams, strict=True):
                text = tokenizer.decode(streamed.token_ids)
                assert streamed.finish_reason is FinishReason.STOP, f"schema {seed}: {text}"
                validator = Draft202012Validator(
                    random_schema(seed), format_checker=Draft202012Validator.FORMAT_CHECKER
                )
                validator.validate(json.loads(text))
        await stack.check_idle()


async def test_some_random_schemas() -> None:
    await check_schemas(FEW)


@pytest.mark.long
async def test_all_other_random_schemas() -> None:
    await check_schemas(OTHERS)


async def test_speculation_changes_no_token() -> None:
    tokenizer = Tokenizer.from_file(str(default_model_dir() / "tokenizer.json"))
    jobs = [job_of(tokenizer, seed) for seed in range(6)]
    async with real_stack() as stack:
        plain = [await stack.run(job, OFF) for job in jobs]
        together = await stack.run_together(jobs)
        assert [s.token_ids for s in together] == [s.token_ids for s in plain]
        assert sum(s.speculation.accepted for s in together) > 0
        await stack.check_idle()
