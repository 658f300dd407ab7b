"""Near before far, answering before silent, idle before busy, and no turning for little."""

from __future__ import annotations

from dspark.scheduler.candidates_choice import ServiceView, choose_service

NEAR = ServiceView("near", is_near=True, propose_ms=4.0)
FAR = ServiceView("far", is_near=False, propose_ms=1.0)


def near(name: str, **fields: object) -> ServiceView:
    return ServiceView(name, is_near=True, **fields)  # type: ignore[arg-type]


def test_the_near_one_is_asked_even_if_it_is_slower() -> None:
    assert choose_service([FAR, NEAR], None) == choose_service([FAR, NEAR], "far") == "near"


def test_one_that_is_refused_is_left_and_come_back_to() -> None:
    refused = near("near", is_refused=True)
    assert choose_service([FAR, refused], "near") == "far"
    assert choose_service([FAR, NEAR], "far") == "near"


def test_among_equals_the_least_loaded_one_is_asked() -> None:
    views = [near("a", propose_ms=2.0, num_links=1), near("b", propose_ms=3.0)]
    assert choose_service(views, None) == "b"


def test_links_spread_over_services_that_nobody_has_asked() -> None:
    counts = {"a": 0, "b": 0}
    for _ in range(6):
        views = [near(name, num_links=count) for name, count in counts.items()]
        chosen = choose_service(views, None)
        assert chosen is not None
        counts[chosen] += 1
    assert counts == {"a": 3, "b": 3}


def test_a_little_less_load_is_no_reason_to_turn() -> None:
    views = [near("a", propose_ms=3.0), near("b", propose_ms=2.0)]
    assert choose_service(views, "a") == "a"
    assert choose_service([near("a", propose_ms=5.0), views[1]], "a") == "b"


def test_one_that_was_never_asked_is_taken_to_be_like_the_others() -> None:
    assert choose_service([near("a", propose_ms=8.0), near("b")], "a") == "a"


def test_where_all_are_refused_the_present_one_is_tried_again() -> None:
    views = [near("a", is_refused=True), near("b", is_refused=True)]
    assert choose_service(views, "b") == "b"
    assert choose_service([], "b") is None
