"""A step says that a plain one follows only if that is what follows."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from dspark.sampling import SamplingParams
from dspark.step import StepPlan
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import make_request, running_scheduler
from harness.scripted_drafters import KnownText

MODEL = HashModel()
PROMPTS = [tuple((index * 7 + i) % 60 for i in range(3 + 4 * index)) for index in range(4)]
PARAMS = SamplingParams(temperature=0.0, max_tokens=60, ignore_eos=True)


def drafters(name: str) -> dict[str, object]:
    texts = [[*prompt, *MODEL.generate(prompt, PARAMS).token_ids] for prompt in PROMPTS]
    return {
        f"r{i}": KnownText(text, MODEL.vocab_size, 5).all()[name] for i, text in enumerate(texts)
    }


async def plans_of(
    policy: str, drafter: str = "adversary", *, computes_ahead: bool = True, **settings: object
) -> list[StepPlan]:
    """The steps of some requests that come one after another."""
    async with (
        FakeVerifier(computes_ahead=computes_ahead) as verifier,
        FakeCandidates(drafters(drafter), top_k=3) as candidates,  # type: ignore[arg-type]
        running_scheduler(
            verifier.target, candidates.target, policy=policy, **settings
        ) as scheduler,
    ):

        async def run(index: int) -> None:
            await asyncio.sleep(0.02 * index)
            request = make_request(f"r{index}", PROMPTS[index], PARAMS)
            streamed = await scheduler.client.generate(request)
            assert tuple(streamed.token_ids) == MODEL.generate(PROMPTS[index], PARAMS).token_ids

        await asyncio.gather(*map(run, range(len(PROMPTS))))
        return list(verifier.plans)


def is_plain_sequel(plan: StepPlan, following: StepPlan) -> bool:
    """Whether the requests that go on have no trees."""
    known = {work.request_id for work in plan.work}
    return not any(len(w.tree) for w in following.work if w.request_id in known)


@pytest.mark.parametrize("drafter", ["adversary", "oracle", "empty"])
@pytest.mark.parametrize("policy", ["economic", "fixed", "off"])
async def test_what_a_step_says_comes_true(policy: str, drafter: str) -> None:
    plans = await plans_of(policy, drafter)
    assert all(is_plain_sequel(a, b) for a, b in pairwise(plans) if a.compute_ahead)
    assert all(
        sum(w.max_pending_rows for w in plan.work) >= len(plan.work)
        for plan in plans
        if plan.compute_ahead
    )


async def test_plain_decoding_always_says_so() -> None:
    plans = [plan for plan in await plans_of("off") if plan.work]
    assert all(plan.compute_ahead for plan in plans)


async def test_candidates_that_never_pay_leave_most_steps_plain() -> None:
    plans = await plans_of("economic", "adversary", explore_share=0.0)
    assert sum(plan.compute_ahead for plan in plans) > len(plans) // 2


async def test_nothing_is_said_while_a_prompt_is_in_work() -> None:
    plans = await plans_of("off", max_num_batched_tokens=6)
    partial = [p for p in plans if any(len(a.token_ids) > 6 for a in p.admissions)]
    assert partial and not any(plan.compute_ahead for plan in partial)


async def test_a_verifier_that_does_not_compute_ahead_is_not_told() -> None:
    assert not any(p.compute_ahead for p in await plans_of("off", computes_ahead=False))
