"""Classes, tenants and predicted waits at a scheduler on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dspark.errors import InvalidArgument, Overloaded, QueueFull
from dspark.sampling import FinishReason, SamplingParams
from dspark.scheduler.metrics import collect
from dspark.v1 import sampling_pb2
from harness.fake_verifier import FakeVerifier
from harness.hash_model import HashModel
from harness.running_scheduler import RunningScheduler, make_request, running_scheduler
from harness.waiting import until

MODEL = HashModel()
PROMPT = (1, 2, 3, 4, 5, 6)
BATCH, INTERACTIVE = sampling_pb2.REQUEST_CLASS_BATCH, sampling_pb2.REQUEST_CLASS_INTERACTIVE


@pytest.fixture
async def verifier() -> AsyncIterator[FakeVerifier]:
    async with FakeVerifier(forward_s=lambda rows: 0.005) as fake:
        yield fake


def params(max_tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0.8, seed=5, max_tokens=max_tokens, ignore_eos=True)


def start(
    scheduler: RunningScheduler, name: str, max_tokens: int, **fields: Any
) -> asyncio.Task[Any]:
    request = make_request(name, PROMPT, params(max_tokens), **fields)
    return asyncio.create_task(scheduler.client.generate(request))


def samples(scheduler: RunningScheduler, family: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for metric in collect(scheduler.server.scheduler)
        for sample in metric.samples
        if sample.name == f"dspark_scheduler_{family}"
    }


async def test_an_interactive_request_takes_the_place_of_a_batch_one_and_no_token_changes(
    verifier: FakeVerifier,
) -> None:
    async with running_scheduler(verifier.target, max_num_seqs=1) as scheduler:
        order: list[str] = []
        batch = start(scheduler, "batch", 50, request_class=BATCH, tenant="a")
        await until(lambda: len(verifier.plans) > 3)
        now = start(scheduler, "now", 4, request_class=INTERACTIVE, tenant="a")
        for name, task in (("batch", batch), ("now", now)):
            task.add_done_callback(lambda _, name=name: order.append(name))
        streams = await asyncio.gather(batch, now)
        totals = scheduler.server.scheduler.totals
        assert totals.num_preemptions == 1
        met = samples(scheduler, "slo_requests_total")
        queued = samples(scheduler, "queue_seconds_count")
    assert order == ["now", "batch"]
    for streamed, max_tokens in zip(streams, (50, 4), strict=True):
        want = MODEL.generate(PROMPT, params(max_tokens)).token_ids
        assert tuple(streamed.token_ids) == want
        assert streamed.finish_reason is FinishReason.LENGTH
    assert met["batch", "true"] == 1 and sum(met.values()) == 2
    assert queued == {("interactive",): 1, ("batch",): 1}


async def test_tenants_take_turns(verifier: FakeVerifier) -> None:
    order: list[str] = []
    async with running_scheduler(verifier.target, max_num_seqs=1) as scheduler:
        tasks = []
        for index, tenant in enumerate("aaaaaaaab"):
            tasks.append(start(scheduler, f"{tenant}{index}", 20, tenant=tenant))
            tasks[-1].add_done_callback(lambda _, tenant=tenant: order.append(tenant))
            status = scheduler.server.scheduler
            await until(
                lambda n=index, s=status: (
                    s.status.num_running + s.status.num_waiting + len(order) > n
                )
            )
        await asyncio.gather(*tasks)
    assert len(order) == 9 and "b" in order[:3]


@pytest.mark.parametrize(("tenant", "kind"), [("", Overloaded), ("a", QueueFull)])
async def test_a_request_that_would_wait_too_long_is_refused(
    verifier: FakeVerifier, tenant: str, kind: type[Overloaded] | type[QueueFull]
) -> None:
    async with running_scheduler(
        verifier.target, max_num_seqs=1, interactive_max_wait_s=0.5
    ) as scheduler:
        tasks = [start(scheduler, f"r{index}", 50, tenant=tenant) for index in range(4)]
        # Nothing is known of the wait before steps with waiting requests were measured.
        await until(lambda: len(verifier.plans) > 20)
        with pytest.raises(kind, match="would wait for about") as caught:
            await start(scheduler, "late", 50, tenant=tenant)
        assert caught.value.retry_after_s is not None and caught.value.retry_after_s >= 1
        # A batch request has no such limit here, and who has tokens already is let in.
        tasks.append(start(scheduler, "batch", 5, tenant=tenant, request_class=BATCH))
        tasks.append(start(scheduler, "resumed", 50, tenant=tenant, committed_token_ids=[1, 2]))
        streams = await asyncio.gather(*tasks)
        refused = samples(scheduler, "refusals_total")
    assert [len(streamed.token_ids) for streamed in streams] == [50, 50, 50, 50, 5, 48]
    assert sum(refused.values()) == 1 == refused["interactive", kind.reason.lower()]


async def test_a_class_that_is_not_known_is_refused_by_name(verifier: FakeVerifier) -> None:
    async with running_scheduler(verifier.target) as scheduler:
        with pytest.raises(InvalidArgument) as caught:
            await start(scheduler, "r", 4, request_class=9)
    assert caught.value.field == "request_class"


async def test_a_tenant_that_fills_the_queue_does_not_keep_others_out(
    verifier: FakeVerifier,
) -> None:
    async with running_scheduler(verifier.target, max_num_seqs=1, max_waiting=3) as scheduler:
        status = scheduler.server.scheduler
        tasks = []
        for index in range(4):
            tasks.append(start(scheduler, f"a{index}", 10, tenant="a"))
            await until(lambda n=index: status.status.num_running + status.status.num_waiting > n)
            await until(lambda: bool(verifier.plans))
        calm = start(scheduler, "b", 10, tenant="b")
        with pytest.raises(QueueFull, match="its place"):
            await tasks[3]
        streams = await asyncio.gather(*tasks[:3], calm)
    assert [len(streamed.token_ids) for streamed in streams] == [10] * 4
