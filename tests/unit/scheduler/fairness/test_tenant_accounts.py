"""Accounts say whose turn it is; turns are not saved up, and newcomers keep nobody waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dspark.scheduler.fairness.tenant_accounts import QUANTUM, TenantAccounts


@given(st.lists(st.integers(1, 5000), min_size=2, max_size=5), st.integers(200, 300))
def test_tenants_that_always_wait_get_equal_tokens(costs: list[int], rounds: int) -> None:
    accounts: TenantAccounts[int] = TenantAccounts()
    tenants = list(range(len(costs)))
    for tenant in tenants:
        accounts.open(tenant, tenants[:tenant])
    used = [0] * len(costs)
    for _ in range(rounds):
        turn = min(tenants, key=lambda tenant: (accounts.round_of(tenant), tenant))
        accounts.charge(turn, costs[turn], tenants)
        used[turn] += costs[turn]
    # Nobody is further ahead than what one request costs, and a round.
    assert max(used) - min(used) <= max(costs) + QUANTUM


def test_turns_that_were_not_used_are_gone() -> None:
    accounts: TenantAccounts[str] = TenantAccounts()
    accounts.open("busy", [])
    for _ in range(100):
        accounts.charge("busy", 1000, ["busy"])
    accounts.open("new", ["busy"])
    assert accounts.spent("new") == accounts.spent("busy") == 100_000


def test_who_used_what_nobody_else_wanted_does_not_pay_for_it_later() -> None:
    accounts: TenantAccounts[str] = TenantAccounts()
    accounts.open("busy", [])
    for _ in range(100):
        accounts.charge("busy", 1000, ["busy"])
    # Nobody waits now; both come again.
    accounts.open("other", [])
    accounts.open("busy", ["other"])
    assert accounts.spent("busy") - accounts.spent("other") <= 1000


def test_new_tenants_without_end_do_not_keep_one_waiting_that_used_more() -> None:
    accounts: TenantAccounts[int] = TenantAccounts()
    accounts.open(0, [])
    accounts.charge(0, 10_000, [0])
    waiting = [0]
    for newcomer in range(1, 1000):
        accounts.open(newcomer, waiting)
        waiting.append(newcomer)
        if len(waiting) < 4:
            continue
        turn = min(waiting, key=lambda tenant: (accounts.round_of(tenant), tenant))
        accounts.charge(turn, 100, waiting)
        waiting.remove(turn)
        accounts.close(turn)
        if turn == 0:
            return
    raise AssertionError("it waited for ever")


def test_an_account_lives_until_it_is_closed() -> None:
    accounts: TenantAccounts[str] = TenantAccounts()
    accounts.open("a", [])
    accounts.close("a")
    accounts.close("a")
    assert len(accounts) == 0
