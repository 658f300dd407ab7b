"""One token budget for decodes, prompt chunks and candidates; admission by free blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspark.generation import RequestSpec
from dspark.sampling import SamplingParams
from dspark.scheduler.batcher import MAX_PARTIAL_PREFILLS, Batch, Batcher
from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.fairness.prompt_budget import PromptBudget
from dspark.scheduler.fairness.row_shares import share_evenly
from dspark.scheduler.live_requests import LiveRequests, Numbers
from dspark.scheduler.request import Request
from dspark.scheduler.stats import Totals


def make_batcher(
    max_num_seqs: int = 8, max_rows: int = 32, block_size: int = 4, num_blocks: int = 1000
) -> Batcher:
    return Batcher(max_num_seqs, max_rows, block_size, num_blocks)


@pytest.fixture
def live() -> LiveRequests:
    return LiveRequests(1000, Numbers(lambda: 1), totals=Totals())


def submit(live: LiveRequests, *lengths: int) -> list[Request]:
    return [
        live.submit(RequestSpec(f"r{len(live)}-{n}", tuple(range(n)), SamplingParams()))
        for n in lengths
    ]


def run(batch: Batch) -> None:
    """What a verifier would do with the batch."""
    for rows in batch.scheduled:
        request = rows.request
        finishes = rows.commits
        request.num_computed_tokens += min(rows.max_pending_rows, request.num_pending_tokens)
        if finishes:
            request.commit((1,))


def rows_of(batch: Batch) -> dict[str, int]:
    return {rows.request.request_id: rows.max_pending_rows for rows in batch.scheduled}


def test_a_new_request_is_admitted_and_computed_in_one_step(live: LiveRequests) -> None:
    (request,) = submit(live, 5)
    batch = make_batcher().schedule(live, 1000)
    (rows,) = batch.scheduled
    assert rows.request is request and rows.is_admission and rows.commits
    assert batch.num_rows == 5 and batch.num_committing == 1
    assert batch.decodes == []
    run(batch)
    batch = make_batcher().schedule(live, 1000)
    assert batch.decodes == [request] and not batch.scheduled[0].is_admission


def test_a_long_prompt_is_computed_in_chunks_while_short_ones_pass(live: LiveRequests) -> None:
    long, *short = submit(live, 1000, 4, 4)
    batch = make_batcher().schedule(live, 1000)
    assert rows_of(batch) == {long.request_id: 24, **{r.request_id: 4 for r in short}}
    run(batch)
    batch = make_batcher().schedule(live, 1000)
    assert set(batch.decodes) == set(short)
    assert rows_of(batch)[long.request_id] == 30


def test_decodes_come_before_prompts(live: LiveRequests) -> None:
    decoding = submit(live, *[1] * 6)
    batcher = make_batcher(max_rows=8)
    run(batcher.schedule(live, 1000))
    (long,) = submit(live, 100)
    batch = batcher.schedule(live, 1000)
    assert [rows.request for rows in batch.scheduled] == [*decoding, long]
    assert rows_of(batch)[long.request_id] == 2
    assert batch.max_nodes == 0


def test_candidates_get_what_is_left(live: LiveRequests) -> None:
    submit(live, 3, 3)
    batcher = make_batcher(max_rows=32)
    run(batcher.schedule(live, 1000))
    assert batcher.schedule(live, 1000).max_nodes == 30


def test_candidates_get_no_rows_where_blocks_are_short(live: LiveRequests) -> None:
    submit(live, 3, 3)
    batcher = make_batcher(max_rows=32)
    run(batcher.schedule(live, 1000))
    assert batcher.schedule(live, 4).max_nodes == 0
    assert batcher.schedule(live, 5).max_nodes == 4


def test_no_more_requests_run_than_allowed(live: LiveRequests) -> None:
    submit(live, *[2] * 10)
    batch = make_batcher(max_num_seqs=3).schedule(live, 1000)
    assert len(batch.scheduled) == len(live.running) == 3 and len(live.waiting) == 7


def test_more_requests_than_rows_still_leave_each_a_row(live: LiveRequests) -> None:
    submit(live, *[50] * 10)
    batcher = make_batcher(max_num_seqs=100, max_rows=3)
    batch = batcher.schedule(live, 1000)
    assert list(rows_of(batch).values()) == [1, 1, 1]


def test_prompts_beyond_the_rows_are_admitted_a_few_at_a_time(live: LiveRequests) -> None:
    submit(live, *[500] * 8)
    batch = make_batcher().schedule(live, 10_000)
    assert len(batch.scheduled) == MAX_PARTIAL_PREFILLS
    assert batch.num_rows == 32


def test_prompts_wait_where_others_are_not_done_and_there_are_places(live: LiveRequests) -> None:
    submit(live, *[500] * 8)
    batcher = make_batcher(num_blocks=10_000)
    assert batcher.schedule(live, 10_000).prompts_wait
    assert batcher.schedule(live, 10_000).without_changed([1] * 4).prompts_wait
    full = make_batcher(max_num_seqs=MAX_PARTIAL_PREFILLS, num_blocks=10_000)
    assert not full.schedule(live, 10_000).prompts_wait


def test_no_prompt_waits_where_all_are_in_work_or_soon_done(live: LiveRequests) -> None:
    submit(live, *[500] * MAX_PARTIAL_PREFILLS)
    assert not make_batcher().schedule(live, 10_000).prompts_wait
    for request in list(live):
        live.cancel(request)
    submit(live, *[4] * 20)
    assert not make_batcher().schedule(live, 1000).prompts_wait


def test_steps_that_drafts_make_longer_have_more_rows_for_prompts(live: LiveRequests) -> None:
    budget = PromptBudget(CostTable([(1, 10.0), (501, 510.0)]), 150.0, 200)
    batcher = replace(make_batcher(max_rows=200, num_blocks=10_000), budget=budget)
    submit(live, 500)
    assert batcher.schedule(live, 10_000).num_rows == budget.num_rows
    assert batcher.stretched(1.5).schedule(live, 10_000).num_rows == round(1.5 * budget.num_rows)
    assert batcher.stretched(1.0) is batcher
    # A pass of 141 rows takes the 150 ms that prompts may take.
    assert batcher.stretched(1e9).schedule(live, 10_000).num_rows == 141
    assert make_batcher().stretched(2.0) == make_batcher()


def test_admission_waits_for_blocks_in_order(live: LiveRequests) -> None:
    first, big, small = submit(live, 8, 40, 4)
    batcher = make_batcher(num_blocks=10)
    run(batcher.schedule(live, 10))
    assert live.running == [first]
    run(batcher.schedule(live, 7))
    assert live.running == [first], "a small one must not pass the big one for ever"
    live.cancel(first)
    batcher.schedule(live, 20)
    assert live.running == [big, small]


def test_blocks_that_running_prompts_will_take_are_not_given_away(live: LiveRequests) -> None:
    submit(live, 100, 8)
    batcher = make_batcher(max_rows=8, num_blocks=30)
    batcher.schedule(live, 30)
    # The first will fill 26 of the 30 blocks, the second wants 3, and 1 stays in reserve.
    assert len(live.running) == 2
    submit(live, 8)
    batcher.schedule(live, 30)
    assert len(live.running) == 2


def test_an_only_request_is_admitted_whatever_is_free(live: LiveRequests) -> None:
    submit(live, 40)
    assert make_batcher(num_blocks=11).schedule(live, 0).num_rows == 32


def of_tenants(live: LiveRequests, *asked: tuple[str, int]) -> list[Request]:
    return [
        live.submit(RequestSpec(f"{tenant}{len(live)}", (1,) * n, SamplingParams(), tenant=tenant))
        for tenant, n in asked
    ]


def test_many_short_prompts_are_admitted_beside_long_ones(live: LiveRequests) -> None:
    submit(live, *[500] * MAX_PARTIAL_PREFILLS)
    batcher = make_batcher(max_num_seqs=20, max_rows=64)
    run(batcher.schedule(live, 10_000))
    short = submit(live, *[4] * 8)
    batch = batcher.schedule(live, 10_000)
    assert all(rows_of(batch)[request.request_id] == 4 for request in short)


def test_a_tenant_is_not_kept_out_by_long_prompts_of_another(live: LiveRequests) -> None:
    of_tenants(live, *[("a", 500)] * 8)
    batcher = make_batcher(max_num_seqs=20, max_rows=64)
    run(batcher.schedule(live, 10_000))
    (newcomer,) = of_tenants(live, ("b", 500))
    batch = batcher.schedule(live, 10_000)
    assert newcomer.is_running and len(live.running) == MAX_PARTIAL_PREFILLS + 1
    # The tenant that runs least goes first.
    assert max(batch.scheduled, key=lambda rows: rows.max_pending_rows).request is newcomer


def test_prompts_take_no_more_rows_than_their_budget(live: LiveRequests) -> None:
    submit(live, 500, 500)
    budget = PromptBudget(CostTable([(1, 50.0), (101, 150.0)]), 70.0, 64)
    batch = Batcher(8, 64, 4, 1000, budget).schedule(live, 1000)
    assert batch.num_rows == 21 and batch.max_nodes == 43


def test_a_full_batch_gives_way_to_another_tenant_with_its_blocks(live: LiveRequests) -> None:
    of_tenants(live, *[("a", 8)] * 4)
    batcher = make_batcher(max_num_seqs=4, num_blocks=13)
    run(batcher.schedule(live, 13))
    (newcomer,) = of_tenants(live, ("b", 8))
    batch = batcher.schedule(live, 5)
    assert newcomer.is_running and len(live.running) == 4
    assert [ref.request_id[0] for ref in live.take_releases()] == ["a"]
    assert rows_of(batch)[newcomer.request_id] == 8


def test_nobody_gives_way_while_there_is_room(live: LiveRequests) -> None:
    of_tenants(live, *[("a", 8)] * 3)
    batcher = make_batcher(max_num_seqs=4)
    run(batcher.schedule(live, 1000))
    of_tenants(live, ("b", 8))
    batcher.schedule(live, 1000)
    assert len(live.running) == 4 and not live.take_releases()


@given(st.integers(0, 100), st.lists(st.integers(1, 60), max_size=8))
def test_shares_are_even_and_nothing_is_wasted(total: int, wanted: list[int]) -> None:
    shares = share_evenly(total, wanted)
    assert all(0 <= share <= wish for share, wish in zip(shares, wanted, strict=True))
    assert sum(shares) == min(total, sum(wanted))
    cut = [share for share, wish in zip(shares, wanted, strict=True) if share < wish]
    assert not cut or max(shares) - min(cut) <= 1


def test_a_crowd_sits_out_for_another_tenants_prompt_and_takes_turns(live: LiveRequests) -> None:
    costs = CostTable([(1, 10.0), (64, 73.0)])
    batcher = Batcher(32, 64, 4, 1000, PromptBudget(costs, 100.0, 64))

    def add(name: str, num_tokens: int, tenant: str) -> Request:
        prompt, sampling = tuple(range(num_tokens)), SamplingParams(max_tokens=100)
        return live.submit(RequestSpec(name, prompt, sampling, tenant=tenant))

    crowd = [add(f"crowd{index}", 1, "crowd") for index in range(24)]
    run(batcher.schedule(live, 1000))
    calm = add("calm", 150, "calm")
    computed: set[Request] = set()
    num_steps = 0
    while calm.num_pending_tokens > 1:
        batch = batcher.schedule(live, 1000)
        assert 0 < len(batch.decodes) < len(crowd) // 2
        computed.update(batch.decodes)
        run(batch)
        num_steps += 1
        assert num_steps < 10
    assert len(computed) > len(crowd) // 4
    assert set(batcher.schedule(live, 1000).decodes) == {*crowd, calm}
    assert not any(request.num_sat_out for request in crowd)
