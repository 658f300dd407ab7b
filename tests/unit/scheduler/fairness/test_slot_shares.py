"""Shares of the places among those that run."""

from __future__ import annotations

from dspark.request_class import RequestClass
from dspark.scheduler.fairness.lane import LaneKey
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.fairness.slot_shares import SlotShares

SETTINGS = FairnessSettings(tenant_share=0.75, long_share=0.5)


def key(tenant: str, *, is_long: bool = False) -> LaneKey:
    return LaneKey(RequestClass.INTERACTIVE, tenant, is_long)


def test_a_tenant_at_its_share_waits_for_others() -> None:
    slots = SlotShares(4, SETTINGS, [key("a")] * 2)
    assert not slots.objections(key("a"))
    slots.add(key("a"))
    assert slots.objections(key("a")) == 1 and not slots.objections(key("b"))
    assert slots.may_enter(key("a"))


def test_long_requests_wait_for_short_ones_beyond_their_share() -> None:
    slots = SlotShares(4, SETTINGS, [key("a", is_long=True), key("b", is_long=True)])
    assert slots.objections(key("c", is_long=True)) == 1 and not slots.objections(key("a"))


def test_objections_add_up_so_that_one_does_not_hide_the_other() -> None:
    slots = SlotShares(4, SETTINGS, [key("a", is_long=True)] * 3)
    assert slots.objections(key("a", is_long=True)) == 2 and slots.objections(key("a")) == 1


def test_a_lane_is_blocked_alone() -> None:
    slots = SlotShares(4, SETTINGS, [])
    slots.block(key("a", is_long=True))
    assert not slots.may_enter(key("a", is_long=True))
    assert slots.may_enter(key("a")) and slots.may_enter(key("b", is_long=True))


def test_with_one_place_everybody_may_have_it() -> None:
    slots = SlotShares(1, SETTINGS, [])
    assert not slots.objections(key("a", is_long=True))
