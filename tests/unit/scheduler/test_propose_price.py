"""The price of asking: what sources publish, and what is seen beside it."""

from __future__ import annotations

import pytest

from dspark.proposal import CandidatesInfo, SourceRate
from dspark.scheduler.propose_price import ProposePrice

INFO = CandidatesInfo(("a", "b"), 0, (SourceRate("a", 0.5, 0.1), SourceRate("b", 1.5, 0.0)))

BOTH = ("a", "b")


def test_without_published_costs_it_is_the_average_of_what_was_seen() -> None:
    price = ProposePrice(2.0)
    assert price.ms([BOTH] * 8, None) == 2.0
    for _ in range(200):
        price.add(5.0, [BOTH] * 8, CandidatesInfo(("a",), 0))
    assert price.ms([BOTH], None) == pytest.approx(5.0)


def test_it_grows_with_the_requests_by_what_sources_publish() -> None:
    price = ProposePrice(2.0)
    for _ in range(200):
        price.add(1.0 + 4 * 2.0, [BOTH] * 4, INFO)
    assert price.ms([BOTH], INFO) == pytest.approx(3.0)
    assert price.ms([BOTH] * 8, INFO) == pytest.approx(17.0)


def test_sources_that_became_faster_than_they_say_are_seen_to_be() -> None:
    price = ProposePrice(2.0)
    for _ in range(200):
        price.add(1.0, [BOTH] * 4, INFO)
    assert price.ms([BOTH] * 4, INFO) == pytest.approx(1.0)
    assert price.ms([BOTH], INFO) == 0.0


def test_a_request_costs_what_its_own_sources_do() -> None:
    price = ProposePrice(2.0)
    for _ in range(200):
        price.add(1.0 + 2.0 + 0.5, [BOTH, ("a",)], INFO)
    assert price.ms([("a",)], INFO) == pytest.approx(1.5)
    assert price.ms([("b",), ("a", "unknown")], INFO) == pytest.approx(3.0)
    assert price.ms([], INFO) == pytest.approx(1.0)
