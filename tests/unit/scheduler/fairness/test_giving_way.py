"""Who is preempted for an interactive request."""

from __future__ import annotations

from dspark.generation import RequestSpec
from dspark.request_class import RequestClass
from dspark.sampling import SamplingParams
from dspark.scheduler.fairness.giving_way import MAX_AHEAD_TOKENS, who_gives_way
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.tenant_accounts import QUANTUM
from dspark.scheduler.request import Request, Share

INTERACTIVE, BATCH = RequestClass.INTERACTIVE, RequestClass.BATCH
SETTINGS = FairnessSettings(batch_share=0.25)


def make(tenant: str, request_class: RequestClass = INTERACTIVE, num_computed: int = 0) -> Request:
    spec = RequestSpec("r", (1,), SamplingParams(), request_class=request_class, tenant=tenant)
    request = Request(spec, 0)
    request.num_computed_tokens = num_computed
    return request


def choose(
    newcomer: Request, running: list[Request], num_slots: int, rounds: dict[str, int] | None = None
) -> Request | None:
    def round_of(share: Share) -> int:
        return (rounds or {}).get(share.tenant, 0)

    return who_gives_way(newcomer, running, [newcomer.share], num_slots, SETTINGS, round_of)


def test_of_batch_requests_the_one_with_least_to_lose_gives_way() -> None:
    running = [make("a", BATCH, computed) for computed in (900, 10, 500)]
    assert choose(make("a"), running, 4) is running[1]


def test_batch_keeps_its_share_of_places() -> None:
    running = [make("a", BATCH, 10), *[make("b", num_computed=1)] * 2]
    assert choose(make("b"), running, 4) is None


def test_where_its_share_is_less_than_a_place_a_batch_request_gives_way_once() -> None:
    request = make("a", BATCH, 10)
    assert choose(make("b"), [request], 1) is request
    request.has_given_way = True
    assert choose(make("b"), [request], 1) is None


def test_a_tenant_beyond_its_part_gives_way_to_one_that_has_less() -> None:
    running = [make("a", num_computed=computed) for computed in (900, 10, 500, 70)]
    assert choose(make("b"), running, 4) is running[1]
    running[1] = make("b")
    # From half of its part on, it waits for its turn.
    assert choose(make("b"), running, 4) is None
    assert choose(make("c"), [running[0], *running[2:], make("a")], 4) is not None


def test_a_tenant_that_used_more_lately_waits_for_its_turn() -> None:
    running = [make("a")] * 4
    assert choose(make("b"), running, 4, {"a": 7, "b": 7}) is running[0]
    most = 7 + MAX_AHEAD_TOKENS // QUANTUM
    assert choose(make("b"), running, 4, {"a": 7, "b": most}) is running[0]
    assert choose(make("b"), running, 4, {"a": 7, "b": most + 1}) is None


def test_nobody_gives_way_to_a_request_of_the_same_tenant_or_of_batch() -> None:
    running = [make("a", num_computed=computed) for computed in range(4)]
    assert choose(make("a"), running, 4) is None
    assert choose(make("b", BATCH), [make("a", BATCH)] * 4, 4) is None
