"""With few KV blocks requests give way and come back; nobody notices in the tokens."""

from __future__ import annotations

import asyncio

import pytest

from dspark.sampling import SamplingParams
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import Streamed, make_request, running_scheduler
from harness.scripted_drafters import Drafter, KnownText
from harness.waiting import until

MODEL = HashModel()
NUM_REQUESTS = 6


def prompt_of(index: int) -> tuple[int, ...]:
    return tuple(range(index, index + 6))


def params_of(index: int) -> SamplingParams:
    temperature = (0.0, 0.8)[index % 2]
    return SamplingParams(temperature=temperature, seed=index, max_tokens=30, ignore_eos=True)


def drafters(name: str) -> dict[str, Drafter]:
    made: dict[str, Drafter] = {}
    for index in range(NUM_REQUESTS):
        text = MODEL.generate(prompt_of(index), params_of(index)).token_ids
        known = KnownText([*prompt_of(index), *text], MODEL.vocab_size)
        made[f"r{index}"] = known.all()[name]
    return made


async def run_all(verifier: FakeVerifier, candidates: FakeCandidates) -> tuple[list[Streamed], int]:
    async with running_scheduler(verifier.target, candidates.target) as scheduler:
        streams = await asyncio.gather(
            *(
                scheduler.client.generate(make_request(f"r{i}", prompt_of(i), params_of(i)))
                for i in range(NUM_REQUESTS)
            )
        )
        return streams, scheduler.server.scheduler.totals.num_preemptions


@pytest.mark.parametrize("name", ["empty", "oracle", "branchy", "adversary"])
@pytest.mark.parametrize("num_blocks", [10, 14, 23])
async def test_preempted_requests_give_the_same_tokens(num_blocks: int, name: str) -> None:
    async with FakeVerifier(num_blocks=num_blocks) as verifier:
        async with FakeCandidates(drafters(name)) as candidates:
            async with asyncio.timeout(30):
                streams, num_preemptions = await run_all(verifier, candidates)
    for index, streamed in enumerate(streams):
        want = MODEL.generate(prompt_of(index), params_of(index))
        assert tuple(streamed.token_ids) == want.token_ids
        assert streamed.usage.completion_tokens == 30
    if name == "empty" and num_blocks < 20:
        assert num_preemptions > 0
    assert verifier.max_used_blocks <= num_blocks
    assert verifier.sequences == {} and verifier.num_free_blocks == num_blocks


async def test_the_first_request_is_never_the_one_that_gives_way() -> None:
    async with FakeVerifier(num_blocks=12) as verifier:
        async with FakeCandidates() as candidates:
            await run_all(verifier, candidates)
    admissions = [a.request_id for plan in verifier.plans for a in plan.admissions]
    first = admissions[0]
    assert admissions.count(first) == 1 and len(admissions) > NUM_REQUESTS


async def test_a_request_comes_back_with_its_tokens_under_a_larger_epoch() -> None:
    async with FakeVerifier(num_blocks=12) as verifier:
        async with FakeCandidates() as candidates:
            await run_all(verifier, candidates)
    by_id: dict[str, list[tuple[int, int]]] = {}
    for plan in verifier.plans:
        for admission in plan.admissions:
            assert admission.num_prompt_tokens == 6
            entry = (admission.epoch, len(admission.token_ids))
            by_id.setdefault(admission.request_id, []).append(entry)
    assert any(len(entries) > 1 for entries in by_id.values())
    for entries in by_id.values():
        assert entries == sorted(entries) and len({epoch for epoch, _ in entries}) == len(entries)


async def test_a_request_waits_for_blocks_that_somebody_else_holds() -> None:
    async with FakeVerifier(num_blocks=12) as verifier:
        async with running_scheduler(verifier.target) as scheduler:
            verifier.num_blocks = 1
            task = asyncio.create_task(
                scheduler.client.generate(make_request("r0", prompt_of(0), params_of(0)))
            )
            await until(lambda: len(verifier.plans) >= 3)
            assert not task.done()
            verifier.num_blocks = 12
            assert (
                tuple((await task).token_ids)
                == MODEL.generate(prompt_of(0), params_of(0)).token_ids
            )
