"""Many requests that end in every way leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import random

from dspark.errors import DSparkError
from dspark.sampling import FinishReason, SamplingParams
from dspark.scheduler.request import Request
from dspark.token_tree import chain
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier, StepFault
from harness.hash_model import HashModel
from harness.running_scheduler import RunningScheduler, make_request, running_scheduler
from harness.scripted_drafters import SOURCE
from harness.waiting import until

NUM_REQUESTS = 300
CONCURRENCY = 12


async def one_of_a_kind(scheduler: RunningScheduler, index: int) -> str:
    """Run a request that ends in a way drawn by its number; says how it ended."""
    dice = random.Random(index)
    prompt = [dice.randrange(60) for _ in range(dice.randrange(1, 40))]
    sampling = SamplingParams(
        temperature=dice.choice([0.0, 0.9]), seed=index, max_tokens=dice.randrange(1, 30)
    )
    request = make_request(f"r{index}", prompt, sampling, priority=dice.randrange(3))
    kind = dice.choice(["whole", "whole", "cancelled", "refused"])
    if kind == "refused":
        request.prompt_token_ids.append(10_000)
    if kind == "cancelled":
        call = scheduler.client.stub.Generate(request)
        await asyncio.sleep(dice.random() * 0.05)
        call.cancel()
        return kind
    try:
        return str((await scheduler.client.generate(request)).finish_reason)
    except DSparkError as error:
        return error.reason


def num_live() -> int:
    gc.collect()
    # isinstance asks things for their class, and some of other packages answer with a warning.
    return sum(type(thing) is Request for thing in gc.get_objects())


async def test_many_requests_that_end_in_every_way_leave_nothing_behind() -> None:
    faults = [StepFault.NONE] * 40 + [StepFault.FORGET, StepFault.DROP_REPLY]
    model = HashModel(vocab_size=64)
    before = num_live()
    async with FakeVerifier(model=model, num_blocks=40) as verifier:
        verifier.faults.extend(faults * 5)
        wrong = FakeCandidates(lambda tokens: chain([1, 2, 3], SOURCE, 0.5), top_k=2)
        async with wrong as candidates:
            async with running_scheduler(
                verifier.target, candidates.target, max_num_seqs=8
            ) as scheduler:
                slots = asyncio.Semaphore(CONCURRENCY)

                async def run(index: int) -> str:
                    async with slots:
                        return await one_of_a_kind(scheduler, index)

                ends = await asyncio.gather(*(run(index) for index in range(NUM_REQUESTS)))
                status = scheduler.server.scheduler
                await until(lambda: not verifier.sequences and not candidates.sequences)
                assert status.status.num_running == status.status.num_waiting == 0
                finished = status.totals.finished
                # The step that ended the last of them may still be on its way.
                await until(lambda: num_live() == before)
    wanted = {str(FinishReason.STOP), str(FinishReason.LENGTH), "cancelled", "INVALID_ARGUMENT"}
    assert set(ends) == wanted
    # A request may end just before its client leaves.
    assert finished[FinishReason.STOP] >= ends.count(str(FinishReason.STOP)) > 0
    assert finished[FinishReason.LENGTH] >= ends.count(str(FinishReason.LENGTH)) > 0
    assert finished[FinishReason.ABORT] > 0
    assert finished[FinishReason.ERROR] == 0
    assert verifier.num_free_blocks == verifier.num_blocks
