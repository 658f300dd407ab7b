"""The price of asking: what sources publish, and what is seen beside it."""

from __future__ import annotations

import pytest

from dspark.proposal import CandidatesInfo, SourceRate
from dspark.scheduler.propose_price import ProposePrice

INFO = CandidatesInfo(("a", "b"), 0, (SourceRate("a", 0.5, 0.1), SourceRate("b", 1.5, 0.0)))

BOTH = ("a", "b")


def expected_ms(price: ProposePrice, asked: list[tuple[str, ...]], info: CandidatesInfo) -> float:
    return price.call_ms + sum(map(info.ms_of, asked))


def test_without_published_costs_it_is_the_average_of_what_was_seen() -> None:
    price = ProposePrice(2.0)
    assert price.call_ms == 2.0
    for _ in range(200):
        price.add(5.0, [BOTH] * 8, CandidatesInfo(("a",), 0))
    assert price.call_ms == pytest.approx(5.0)


def test_it_grows_with_the_requests_by_what_sources_publish() -> None:
    price = ProposePrice(2.0)
    for _ in range(200):
        price.add(1.0 + 4 * 2.0, [BOTH] * 4, INFO)
    assert expected_ms(price, [BOTH], INFO) == pytest.approx(3.0)
    assert expected_ms(price, [BOTH] * 8, INFO) == pytest.approx(17.0)


def test_sources_that_became_faster_than_they_say_are_seen_to_be() -> None:
    price = ProposePrice(2.0)
    for _ in range(200):
        price.add(1.0, [BOTH] * 4, INFO)
    assert price.call_ms == 0.0


def test_a_request_costs_what_its_own_sources_do() -> None:
    price = ProposePrice(2.0)
    for _ in range(200):
        price.add(1.0 + 2.0 + 0.5, [BOTH, ("a",)], INFO)
    assert expected_ms(price, [("a",)], INFO) == pytest.approx(1.5)
    assert expected_ms(price, [("b",), ("a", "unknown")], INFO) == pytest.approx(3.0)
    assert expected_ms(price, [], INFO) == pytest.approx(1.0)
