"""Hidden states on their way from the verifier to a source: those of the last computed token."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.server import CandidatesServer
from dspark.errors import InternalError
from dspark.sampling import SamplingParams
from dspark.step import StepOutcome, StepPlan
from harness.fake_candidates import FakeCandidates
from harness.fake_model import FakeModel, fake_feature
from harness.fake_verifier import FakeVerifier, StepFault, hash_feature
from harness.feature_watcher import FeatureWatcher
from harness.hash_model import HashModel
from harness.known_outputs import KnownOutputs
from harness.mixed_jobs import mixed_jobs, random_prompts
from harness.running_scheduler import RunningScheduler, make_request, running_scheduler
from harness.scripted_drafters import SCRIPTS
from harness.verifier_service import fake_config, fake_loader
from harness.waiting import until
from harness.whole_stack import Job, WholeStack, whole_stack

FAKE = FakeModel()
HASH = HashModel()
HASH_PARAMS = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
HASH_PROMPTS = [tuple(range(index, index + 4 + 3 * index)) for index in range(4)]


@cache
def fake_digest(token_ids: tuple[int, ...]) -> int:
    return int(FAKE.digests_of(token_ids)[-1])


def fake_features(token_ids: Sequence[int], layer: int) -> NDArray[np.float32]:
    digest = np.array([fake_digest(tuple(token_ids))], dtype=np.uint64)
    return np.repeat(fake_feature(digest.astype(np.int64), layer), 4)


def watcher_of(script: str, known: KnownOutputs, num_features: int = 1) -> FeatureWatcher:
    return FeatureWatcher(
        SCRIPTS[script], known.truth, FAKE.vocab_size, fake_features, num_features=num_features
    )


async def check_stack(stack: WholeStack, known: KnownOutputs) -> None:
    """Tokens are the plain ones, alone and together, and with prefix hits."""
    jobs = mixed_jobs(random_prompts(5, FAKE.vocab_size), 20)
    plain = [streamed.token_ids for streamed in await stack.run_alone(jobs)]
    for job, token_ids in zip(jobs, plain, strict=True):
        known.learn(job.prompt, token_ids)
    for uses_cache in (False, True, True):
        streams = await stack.run_together(jobs, use_prefix_cache=uses_cache)
        assert [streamed.token_ids for streamed in streams] == plain
    await stack.check_idle()


@pytest.mark.parametrize("num_features", [1, 4])
@pytest.mark.parametrize("script", ["random", "branchy", "empty"])
async def test_a_source_is_asked_with_the_features_of_the_last_computed_token(
    script: str, num_features: int
) -> None:
    known = KnownOutputs()
    watcher = watcher_of(script, known, num_features)
    async with whole_stack(
        fake_loader(FAKE), fake_config(), [watcher], max_num_batched_tokens=9
    ) as stack:
        await check_stack(stack, known)
        # Ends are told aside.
        await until(lambda: not watcher._latest)
    assert watcher.num_asked > 20 and watcher.problems == []


@pytest.mark.parametrize("compute_ahead", ["on", "off"])
async def test_where_candidates_are_asked_now_and_then(compute_ahead: str) -> None:
    known = KnownOutputs()
    watcher = watcher_of("alternating", known)
    config = fake_config(compute_ahead=compute_ahead)
    async with whole_stack(
        fake_loader(FAKE), config, [watcher], policy="economic", explore_share=0.2
    ) as stack:
        await check_stack(stack, known)
    assert watcher.num_asked and watcher.problems == []


async def test_after_a_preemption() -> None:
    known = KnownOutputs()
    watcher = watcher_of("empty", known)
    # Two requests that fit at first, and both have decoded for a while when one has to give way.
    params = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    jobs = [Job(tuple(prompt), params) for prompt in ([1, 2, 3] * 7, [3, 2, 1] * 7)]
    async with whole_stack(fake_loader(FAKE), fake_config(kv_tokens=96), [watcher]) as stack:
        plain = await stack.run_alone(jobs)
        streams = await stack.run_together(jobs)
        assert [one.token_ids for one in streams] == [one.token_ids for one in plain]
        assert (await stack.client.status()).num_preemptions > 0
    assert watcher.problems == []
    assert len(watcher.epochs) > len({request_id for request_id, _ in watcher.epochs})


@asynccontextmanager
async def hash_stack(
    *verifiers: FakeVerifier, watcher: FeatureWatcher
) -> AsyncIterator[RunningScheduler]:
    """A real scheduler and real candidates on verifiers that can be made to fail."""
    config = CandidatesConfig(listen="127.0.0.1:0", propose_deadline_ms=1500.0)
    candidates = CandidatesServer(Proposer([watcher], config), config)
    async with AsyncExitStack() as stack:
        targets = [(await stack.enter_async_context(verifier)).target for verifier in verifiers]
        port = await candidates.start()
        stack.push_async_callback(candidates.stop)
        scheduler = await stack.enter_async_context(
            running_scheduler(targets, f"127.0.0.1:{port}", failover_s=0.1)
        )
        workers = scheduler.server.scheduler.pool.workers
        await until(lambda: all(worker.is_serving for worker in workers))
        yield scheduler


def hash_watcher() -> FeatureWatcher:
    known = KnownOutputs()
    for prompt in HASH_PROMPTS:
        known.learn(prompt, HASH.generate(prompt, HASH_PARAMS).token_ids)
    return FeatureWatcher(SCRIPTS["alternating"], known.truth, HASH.vocab_size, hash_feature)


async def run_all(scheduler: RunningScheduler) -> None:
    streams = await asyncio.gather(
        *(
            scheduler.client.generate(make_request(f"r{index}", prompt, HASH_PARAMS))
            for index, prompt in enumerate(HASH_PROMPTS)
        )
    )
    for prompt, streamed in zip(HASH_PROMPTS, streams, strict=True):
        assert tuple(streamed.token_ids) == HASH.generate(prompt, HASH_PARAMS).token_ids


@pytest.mark.parametrize("fault", [StepFault.FORGET, StepFault.RESTART, StepFault.DROP_REPLY])
async def test_after_a_verifier_lost_its_state(fault: StepFault) -> None:
    watcher = hash_watcher()
    verifier = FakeVerifier(faults=deque([StepFault.NONE] * 8 + [fault]))
    async with hash_stack(verifier, watcher=watcher) as scheduler:
        await run_all(scheduler)
    assert not verifier.faults and watcher.num_asked > 8 and watcher.problems == []


async def test_after_a_failover() -> None:
    watcher = hash_watcher()
    lost, other = (FakeVerifier(forward_s=lambda rows: 0.005) for _ in range(2))
    async with hash_stack(lost, other, watcher=watcher) as scheduler:
        running = asyncio.create_task(run_all(scheduler))
        await until(lambda: len(lost.plans) > 4)
        lost.faults = deque([StepFault.DRAIN] * 1000)
        await running
    moved = [request_id for request_id, _ in watcher.epochs]
    assert len(moved) > len(set(moved)) and watcher.problems == []


async def plans_with(
    layers: tuple[int, ...], exported: tuple[int, ...] = (0, 1, 2), num_features: int = 2
) -> list[StepPlan]:
    async with (
        FakeVerifier(feature_layers=exported) as verifier,
        FakeCandidates(feature_layers=layers, num_features=num_features) as candidates,
        running_scheduler(verifier.target, candidates.target) as scheduler,
    ):
        await run_all(scheduler)
        return [plan for plan in verifier.plans if plan.work]


async def test_a_step_asks_for_what_candidates_want() -> None:
    for plan in await plans_with((0, 2)):
        assert plan.feature_layers == (0, 2) and not plan.compute_ahead
        assert {work.num_features for work in plan.work} == {2}


@pytest.mark.parametrize("layers", [(), (0, 3), (2, 0)])
async def test_a_step_asks_for_nothing_that_cannot_be_had(layers: tuple[int, ...]) -> None:
    plans = await plans_with(layers)
    assert not any(plan.feature_layers for plan in plans)
    assert not any(work.num_features for plan in plans for work in plan.work)


class Incapable(FakeVerifier):
    """Says that it exports layers, and fails when it is to do so."""

    async def step(self, plan: StepPlan) -> StepOutcome:
        if plan.feature_layers:
            raise InternalError("cannot export")
        return await super().step(plan)


async def test_a_verifier_that_fails_to_export_costs_a_step_and_no_request() -> None:
    watcher, verifier = hash_watcher(), Incapable()
    async with hash_stack(verifier, watcher=watcher) as scheduler:
        await run_all(scheduler)
    assert len(verifier.plans) > 10 and not any(plan.feature_layers for plan in verifier.plans)
