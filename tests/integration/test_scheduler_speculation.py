"""Candidates change the number of steps and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from dspark.proposal import DraftProposal
from dspark.sampling import SamplingParams, SpeculationParams
from dspark.token_tree import chain
from harness.fake_candidates import FakeCandidates
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import make_request, running_scheduler
from harness.scripted_drafters import NAMES, SOURCE, Drafter, KnownText
from harness.waiting import until

MODEL = HashModel()
WIDTH = 5
BATCH = 6


def params_of(index: int, max_tokens: int = 40) -> SamplingParams:
    temperature = (0.0, 0.7, 1.3)[index % 3]
    return SamplingParams(temperature=temperature, seed=index, max_tokens=max_tokens)


def prompt_of(index: int) -> tuple[int, ...]:
    return tuple((index * 7 + i) % 60 for i in range(3 + 4 * index))


def known(index: int, max_tokens: int = 40) -> KnownText:
    prompt = prompt_of(index)
    text = MODEL.generate(prompt, params_of(index, max_tokens)).token_ids
    return KnownText([*prompt, *text], MODEL.vocab_size, WIDTH)


@pytest.mark.parametrize("policy", ["fixed", "threshold", "economic", "off"])
@pytest.mark.parametrize("name", NAMES)
async def test_any_candidates_give_the_tokens_of_plain_decoding(name: str, policy: str) -> None:
    drafters: dict[str, Drafter] = {f"r{i}": known(i).all()[name] for i in range(BATCH)}
    async with FakeVerifier() as verifier, FakeCandidates(drafters, top_k=3) as candidates:
        async with running_scheduler(
            verifier.target, candidates.target, policy=policy
        ) as scheduler:
            streams = await asyncio.gather(
                *(
                    scheduler.client.generate(make_request(f"r{i}", prompt_of(i), params_of(i)))
                    for i in range(BATCH)
                )
            )
            totals = scheduler.server.scheduler.totals
    for index, streamed in enumerate(streams):
        want = MODEL.generate(prompt_of(index), params_of(index))
        assert tuple(streamed.token_ids) == want.token_ids
        assert streamed.finish_reason is want.finish_reason
        assert streamed.num_accepted == streamed.speculation.accepted
        assert streamed.speculation.rounds == len(streamed.chunk_sizes)
        assert sum(streamed.chunk_sizes) == streamed.speculation.rounds + streamed.num_accepted
    assert totals.speculation.drafted == sum(s.speculation.drafted for s in streams)
    assert verifier.sequences == {}
    if policy == "fixed" and name in ("oracle", "late_wrong"):
        assert totals.speculation.accepted > totals.speculation.rounds
    if policy == "off" or name in ("empty", "garbage"):
        assert totals.speculation.drafted == 0


async def test_requests_with_no_one_and_many_candidates_mix() -> None:
    """A request without candidates never shifts its neighbours."""
    prompt, params = (7,) * 48, SamplingParams(temperature=0.0, max_tokens=32, ignore_eos=True)
    text = [*prompt, *MODEL.generate(prompt, params).token_ids]
    drafters: dict[str, Drafter] = {
        f"r{k}": (lambda tokens, k=k: chain(text[len(tokens) : len(tokens) + k], SOURCE, 0.9))
        for k in range(8)
    }
    async with FakeVerifier() as verifier, FakeCandidates(drafters) as candidates:
        async with running_scheduler(verifier.target, candidates.target) as scheduler:
            streams = await asyncio.gather(
                *(
                    scheduler.client.generate(make_request(f"r{k}", prompt, params))
                    for k in range(8)
                )
            )
    assert {tuple(s.token_ids) for s in streams} == {tuple(text[48:])}
    assert [s.speculation.drafted > 0 for s in streams] == [False] + [True] * 7


@pytest.mark.parametrize("max_tokens", range(1, WIDTH + 4))
async def test_candidates_never_reach_beyond_the_last_but_one_token(max_tokens: int) -> None:
    drafters: dict[str, Drafter] = {"r2": known(2, 40).oracle}
    async with FakeVerifier() as verifier, FakeCandidates(drafters) as candidates:
        async with running_scheduler(verifier.target, candidates.target) as scheduler:
            params = replace(params_of(2, max_tokens), ignore_eos=True)
            streamed = await scheduler.client.generate(make_request("r2", prompt_of(2), params))
    assert len(streamed.token_ids) == max_tokens
    assert streamed.usage.completion_tokens == max_tokens
    last = len(prompt_of(2)) + max_tokens
    assert all(item.base_len + item.max_depth < last for item in candidates.items)
    trees = [work for plan in verifier.plans for work in plan.work if work.tree]
    assert all(work.base_len + max(work.tree.depths) < last for work in trees)


@pytest.mark.parametrize(
    ("speculation", "asked"),
    [
        (SpeculationParams(enabled=False), 0),
        (SpeculationParams(max_draft_tokens=0), 0),
        (SpeculationParams(max_draft_tokens=2), 2),
        (SpeculationParams(sources=(SOURCE,)), WIDTH),
        (SpeculationParams(), WIDTH),
    ],
)
async def test_a_request_steers_its_own_speculation(
    speculation: SpeculationParams, asked: int
) -> None:
    drafters: dict[str, Drafter] = {"r2": known(2).oracle}
    async with FakeVerifier() as verifier:
        async with FakeCandidates(drafters, sources=("a", SOURCE)) as candidates:
            async with running_scheduler(
                verifier.target, candidates.target, num_draft_tokens=WIDTH
            ) as scheduler:
                request = make_request("r2", prompt_of(2), params_of(2), speculation)
                streamed = await scheduler.client.generate(request)
    assert tuple(streamed.token_ids) == MODEL.generate(prompt_of(2), params_of(2)).token_ids
    assert max((item.max_nodes for item in candidates.items), default=0) == asked
    assert bool(streamed.speculation.drafted) == bool(asked)
    if not speculation.enabled:
        assert candidates.updates == []
    if speculation.sources:
        assert {item.sources for item in candidates.items} == {(SOURCE,)}


@pytest.mark.parametrize(
    "alter",
    [
        lambda p: replace(p, epoch=p.epoch - 1),
        lambda p: replace(p, base_len=p.base_len - 1),
        lambda p: replace(p, request_id="somebody"),
        lambda p: replace(p, tree=replace(p.tree, scores=(float("nan"),) * len(p.tree))),
    ],
)
async def test_stale_foreign_and_broken_proposals_are_never_verified(
    alter: Callable[[DraftProposal], DraftProposal],
) -> None:
    drafters: dict[str, Drafter] = {"r1": known(1).oracle}
    async with FakeVerifier() as verifier:
        async with FakeCandidates(drafters, alter=alter) as candidates:
            async with running_scheduler(verifier.target, candidates.target) as scheduler:
                streamed = await scheduler.client.generate(
                    make_request("r1", prompt_of(1), params_of(1))
                )
    assert tuple(streamed.token_ids) == MODEL.generate(prompt_of(1), params_of(1)).token_ids
    assert candidates.num_proposes > 0
    assert not any(work.tree for plan in verifier.plans for work in plan.work)


async def test_the_same_wrong_candidates_for_ever_do_not_stop_a_request() -> None:
    drafters: dict[str, Drafter] = {"r4": lambda tokens: chain([1, 1, 1], "scripted", 0.99)}
    params = SamplingParams(temperature=0.0, max_tokens=100, ignore_eos=True)
    async with FakeVerifier() as verifier, FakeCandidates(drafters) as candidates:
        async with running_scheduler(
            verifier.target, candidates.target, mute_after=4, mute_steps=50
        ) as scheduler:
            streamed = await scheduler.client.generate(make_request("r4", prompt_of(4), params))
    assert tuple(streamed.token_ids) == MODEL.generate(prompt_of(4), params).token_ids
    assert all(size >= 1 for size in streamed.chunk_sizes)
    assert len(candidates.items) < 50, "the source is muted"


@pytest.mark.parametrize("fault", ["down", "slow", "gone", "forgetful"])
async def test_candidates_that_fail_cost_speed_only(fault: str) -> None:
    drafters: dict[str, Drafter] = {"r3": known(3).late_wrong}
    fake = FakeCandidates(drafters)
    async with FakeVerifier() as verifier, fake as candidates:
        async with running_scheduler(
            verifier.target,
            candidates.target,
            policy="fixed",
            propose_deadline_ms=300.0,
            breaker_failures=2,
        ) as scheduler:
            asking = candidates.propose

            async def failing(*args: object) -> object:
                if candidates.num_proposes >= 2:
                    if fault == "forgetful":
                        candidates.sequences.clear()
                    candidates.is_down = fault == "down"
                    candidates.delay_s = 60.0 if fault == "slow" else 0.0
                    if fault == "gone":
                        await candidates.stop()
                return await asking(*args)  # type: ignore[arg-type]

            candidates.propose = failing  # type: ignore[assignment, method-assign]
            streamed = await scheduler.client.generate(
                make_request("r3", prompt_of(3), params_of(3))
            )
    assert tuple(streamed.token_ids) == MODEL.generate(prompt_of(3), params_of(3)).token_ids
    assert streamed.speculation.drafted > 0


async def test_candidates_that_come_back_are_used_again() -> None:
    params = SamplingParams(temperature=0.0, max_tokens=400, ignore_eos=True)
    text = [1, *MODEL.generate((1,), params).token_ids]
    drafters: dict[str, Drafter] = {"r": KnownText(text, MODEL.vocab_size, 1).oracle}
    fake = FakeCandidates(drafters, is_down=True)
    async with FakeVerifier(forward_s=lambda rows: 0.002) as verifier, fake as candidates:
        async with running_scheduler(
            verifier.target, candidates.target, breaker_failures=2, breaker_open_s=0.02
        ) as scheduler:
            task = asyncio.create_task(scheduler.client.generate(make_request("r", (1,), params)))
            await until(lambda: len(verifier.plans) > 20)
            assert candidates.num_proposes == 0
            candidates.is_down = False
            streamed = await task
    assert streamed.token_ids == text[1:]
    assert candidates.num_proposes > 0 and streamed.speculation.accepted > 0


async def test_candidates_learn_the_whole_text_and_its_end() -> None:
    drafters: dict[str, Drafter] = {"r3": known(3).oracle}
    seen: dict[str, list[int]] = {}
    async with FakeVerifier() as verifier, FakeCandidates(drafters, top_k=2) as candidates:
        observing = candidates.observe

        def observe(update: object) -> list[str]:
            unknown = observing(update)  # type: ignore[arg-type]
            seen.update({k: tokens for k, (_, tokens) in candidates.sequences.items()})
            for new in update.sequences:  # type: ignore[attr-defined]
                seen[new.request_id] = [*seen.get(new.request_id, []), *new.token_ids][
                    -(new.base_len + len(new.token_ids)) :
                ]
            return unknown

        candidates.observe = observe  # type: ignore[method-assign]
        async with running_scheduler(verifier.target, candidates.target) as scheduler:
            streamed = await scheduler.client.generate(
                make_request("r3", prompt_of(3), params_of(3), cache_salt="tenant")
            )
            await until(lambda: bool(candidates.releases))
    assert candidates.sequences == {}
    (end,) = candidates.releases
    assert end.request_id == "r3" and end.completed
    updates = [s for update in candidates.updates for s in update.sequences]
    sent = [token for s in updates for token in s.token_ids]
    assert sent == [*prompt_of(3), *streamed.token_ids], "each token is sent once"
    assert updates[0].cache_salt == "tenant" and updates[0].num_prompt_tokens == 15
    assert all(s.cache_salt == "tenant" for s in candidates.successors)
    rows = [row for s in candidates.successors for row in s.row_token_ids]
    assert rows and all(
        len(s.top_token_ids) == 2 * len(s.row_token_ids) for s in candidates.successors
    )


async def test_without_a_cost_table_the_economic_policy_decodes_plainly() -> None:
    drafters: dict[str, Drafter] = {"r1": known(1).oracle}
    async with FakeVerifier(costs=()) as verifier, FakeCandidates(drafters) as candidates:
        async with running_scheduler(
            verifier.target, candidates.target, policy="economic"
        ) as scheduler:
            streamed = await scheduler.client.generate(
                make_request("r1", prompt_of(1), params_of(1))
            )
    assert tuple(streamed.token_ids) == MODEL.generate(prompt_of(1), params_of(1)).token_ids
    assert candidates.items == [] and streamed.speculation.drafted == 0


async def test_steps_that_candidates_took_part_in_are_timed() -> None:
    drafters: dict[str, Drafter] = {"r3": known(3).oracle}
    async with FakeVerifier(forward_s=lambda rows: 0.01) as verifier:
        async with FakeCandidates(drafters, delay_s=0.005) as candidates:
            async with running_scheduler(verifier.target, candidates.target) as scheduler:
                streamed = await scheduler.client.generate(
                    make_request("r3", prompt_of(3), params_of(3))
                )
    steps = streamed.steps
    assert steps.propose_ms >= 5.0 and steps.verify_ms >= steps.forward_ms >= 9.0
    assert steps.overhead_ms >= steps.propose_ms
