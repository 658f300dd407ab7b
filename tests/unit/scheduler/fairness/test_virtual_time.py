"""What requests feel of each other, with the real queue and batcher, in virtual time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from dspark.errors import Overloaded, QueueFull
from dspark.request_class import RequestClass
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.wait_forecast import WaitForecast
from dspark.scheduler.request import Request
from harness.virtual_server import DEVICE, PROCESSOR, Ask, VirtualServer, quantile

INTERACTIVE, BATCH = RequestClass.INTERACTIVE, RequestClass.BATCH
Costs = Sequence[tuple[int, float]]
both_machines = pytest.mark.parametrize("costs", [PROCESSOR, DEVICE], ids=["processor", "device"])


def short_ones(rate: float, seed: int, count: int = 50) -> list[Ask]:
    """Short requests that come at random, so many a second; 0 means all at once."""
    dice = random.Random(seed)
    at, asks = 0.0, []
    for index in range(count):
        at += dice.expovariate(rate) if rate else 0.0
        asks.append(Ask(at, f"short{index}", dice.randrange(30, 120), dice.randrange(20, 80)))
    return asks


def p99_of_short_ones(costs: Costs, rate: float, *others: Ask) -> float:
    ttfts: list[float] = []
    for seed in range(3):
        server = VirtualServer(costs, max_num_seqs=64)
        ttfts += server.run([*others, *short_ones(rate, seed)]).ttft("short")
    assert len(ttfts) == 150
    return quantile(ttfts, 0.99)


@both_machines
@pytest.mark.parametrize("rate", [0.0, 4.0])
@pytest.mark.parametrize(
    "long", [Ask(0.3, "long", 4000, 50), Ask(0.3, "long", 50, 4000)], ids=["prompt", "output"]
)
def test_short_requests_hardly_feel_a_long_one(costs: Costs, rate: float, long: Ask) -> None:
    assert p99_of_short_ones(costs, rate, long) <= 1.5 * p99_of_short_ones(costs, rate)


@both_machines
def test_a_long_prompt_among_short_requests_gets_on(costs: Costs) -> None:
    alone = VirtualServer(costs).run([Ask(0, "long", 4000, 50)]).ttft_s["long"]
    asks = [Ask(0.3, "long", 4000, 50), *short_ones(4.0, 0, count=100)]
    assert VirtualServer(costs).run(asks).ttft_s["long"] <= 5 * alone


def flood(num_prompt: int, num_output: int, request_class: RequestClass) -> Iterator[Ask]:
    dice = random.Random(7)
    for index in itertools.count():
        prompt, output = (dice.randrange(n // 2, 2 * n) for n in (num_prompt, num_output))
        yield Ask(0.0, f"flood{index}", prompt, output, "flood", request_class)


def ttfts_beside(costs: Costs, places: int, asks: Iterator[Ask], num_at_once: int) -> list[float]:
    """Of a tenant that sends a request each second, while another keeps so many in flight."""
    dice = random.Random(3)
    calm = [Ask(5 + i + dice.random(), f"calm{i}", 200, 20, "calm") for i in range(30)]

    def next_ask(ended: Ask, now: float) -> Ask | None:
        return Ask(now, *_rest(next(asks))) if ended.tenant == "flood" else None

    server = VirtualServer(costs, max_num_seqs=places)
    served = server.run([*calm, *itertools.islice(asks, num_at_once)], 40.0, next_ask)
    assert len(served.ttft("calm")) == 30
    return served.ttft("calm")


def _rest(ask: Ask) -> tuple[str, int, int, str, RequestClass]:
    return ask.name, ask.num_prompt, ask.num_output, ask.tenant, ask.request_class


@pytest.mark.parametrize(
    ("costs", "places"),
    [(PROCESSOR, 16), (PROCESSOR, 64), (DEVICE, 16)],
    ids=["processor", "processor, many places", "device"],
)
@pytest.mark.parametrize("request_class", RequestClass)
@pytest.mark.parametrize(("num_prompt", "num_output"), [(100, 100), (20, 1000), (1500, 20)])
def test_a_tenant_hardly_feels_another_that_floods(
    costs: Costs, places: int, num_prompt: int, num_output: int, request_class: RequestClass
) -> None:
    idle = ttfts_beside(costs, places, iter(()), 0)
    flooded = ttfts_beside(costs, places, flood(num_prompt, num_output, request_class), 96)
    assert quantile(flooded, 0.99) <= 2 * quantile(idle, 0.99)


@pytest.mark.parametrize(("prompts", "outputs"), [((50, 300), (50, 50)), ((10, 10), (20, 200))])
def test_two_tenants_that_flood_get_equal_tokens(
    prompts: tuple[int, int], outputs: tuple[int, int]
) -> None:
    asks = [
        Ask(0.0, f"{tenant}{index}", prompt, output, tenant)
        for tenant, prompt, output in zip("ab", prompts, outputs, strict=True)
        for index in range(1000)
    ]
    tokens = VirtualServer(DEVICE, max_num_seqs=16).run(asks, 20.0).tokens
    assert tokens["a"] == pytest.approx(tokens["b"], rel=0.1)


def test_batch_goes_on_while_interactive_requests_flood() -> None:
    asks = [Ask(0.0, f"now{index}", 50, 50) for index in range(1000)]
    asks += [Ask(0.0, f"later{i}", 50, 50, request_class=BATCH) for i in range(300)]
    ended = VirtualServer(DEVICE, max_num_seqs=16).run(asks, 20.0).ended_s
    num_batch = sum(name.startswith("later") for name in ended)
    assert num_batch == pytest.approx(0.1 * len(ended), rel=0.2)


def test_an_interactive_request_does_not_wait_for_batch_ones_to_end() -> None:
    asks = [Ask(0.0, f"later{i}", 100, 2000, request_class=BATCH) for i in range(8)]
    asks += [Ask(5.0 + i, f"now{i}", 100, 10) for i in range(5)]
    server = VirtualServer(DEVICE, max_num_seqs=4)
    served = server.run(asks)
    assert max(served.ttft("now")) < 0.1
    assert len(served.ended_s) == 13 and server.totals.num_preemptions >= 1


def test_a_request_of_the_lowest_priority_is_served_while_better_ones_flood() -> None:
    settings = FairnessSettings(ageing_s=1.0)
    numbers = itertools.count()

    def urgent(now: float) -> Ask:
        return Ask(now, f"urgent{next(numbers)}", 20, 20, priority=-100)

    def follow(ask: Ask, now: float) -> Ask:
        return urgent(now)

    asks = [urgent(0.0) for _ in range(40)] + [Ask(0.0, "patient", 20, 20, priority=100)]
    served = VirtualServer(DEVICE, settings, max_num_seqs=4).run(asks, 60.0, follow)
    # 32 levels, of a second each.
    assert 30 <= served.ttft_s["patient"] <= 40


@pytest.mark.parametrize(("tenant", "error"), [("", Overloaded), ("a", QueueFull)])
def test_who_would_wait_too_long_is_refused_and_told_when_to_come_again(
    tenant: str, error: type[Overloaded] | type[QueueFull]
) -> None:
    settings = FairnessSettings(interactive_max_wait_s=10.0)
    asks = [Ask(0.01 * index, f"r{index}", 50, 200, tenant) for index in range(500)]
    served = VirtualServer(DEVICE, settings, max_num_seqs=8).run(asks)
    assert len(served.refused) + len(served.ended_s) == 500
    assert all(type(refusal) is error for refusal in served.refused.values())
    retries = [refusal.retry_after_s for refusal in served.refused.values()]
    assert retries and all(retry is not None and 1 <= retry <= 60 for retry in retries)
    # Those that were let in wait about as long as they may.
    assert 5 <= quantile(served.ttft("r"), 0.95) <= 20


def test_a_prediction_comes_true() -> None:
    server = VirtualServer(DEVICE, max_num_seqs=8)
    asks = [Ask(0.0, f"r{index}", 50, 100) for index in range(100)]
    server.run(asks, until_s=3.0)
    newcomer = Request(Ask(server.now, "late", 50, 100).spec, 1000)
    forecast = WaitForecast(FairnessSettings(), server.live.rates)
    predicted_s = forecast.wait_s(server.live.waiting.ahead_of(newcomer))
    served = server.run([Ask(server.now, "late", 50, 100)])
    assert served.ttft_s["late"] == pytest.approx(predicted_s, rel=0.3)
