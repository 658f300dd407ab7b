"""Targets, waits and refusals by class."""

from __future__ import annotations

import pytest

from dspark.errors import DuplicateRequest, Overloaded, QueueFull
from dspark.generation import RequestSpec
from dspark.request_class import RequestClass
from dspark.sampling import SamplingParams
from dspark.scheduler.fairness.class_books import ClassBooks, meets
from dspark.scheduler.fairness.class_metrics import collect
from dspark.scheduler.fairness.settings import FairnessSettings, Targets
from dspark.scheduler.request import Request

INTERACTIVE, BATCH = RequestClass.INTERACTIVE, RequestClass.BATCH


def ended(
    first_at: float | None, num_generated: int, request_class: RequestClass = INTERACTIVE
) -> Request:
    spec = RequestSpec("r", (1,), SamplingParams(max_tokens=100), request_class=request_class)
    request = Request(spec, 0, arrived_at=10.0)
    request.decoding_since = first_at
    request.token_ids += [7] * num_generated
    return request


@pytest.mark.parametrize(
    ("first_at", "num_generated", "now", "is_met"),
    [
        (11.0, 11, 12.0, True),
        (11.1, 11, 12.0, False),
        (11.0, 11, 12.1, False),
        (11.0, 1, 11.0, True),
        (None, 0, 12.0, False),
    ],
)
def test_a_request_meets_both_targets_or_none(
    first_at: float | None, num_generated: int, now: float, is_met: bool
) -> None:
    targets = Targets(ttft_ms=1000.0, tpot_ms=100.0)
    assert meets(ended(first_at, num_generated), targets, now) is is_met


def test_a_target_of_0_is_none() -> None:
    assert meets(ended(1e6, 2), Targets(), 2e6) and meets(ended(None, 0), Targets(), 2e6)
    assert FairnessSettings().targets(BATCH) == Targets()


def test_metrics_tell_the_classes_apart() -> None:
    books = ClassBooks()
    books.admitted(ended(None, 0), 10.02)
    targets = Targets(ttft_ms=1000.0)
    books.ended(ended(10.5, 5), targets, 12.0, has_failed=False)
    books.ended(ended(15.0, 5), targets, 16.0, has_failed=False)
    books.ended(ended(10.5, 5, BATCH), targets, 12.0, has_failed=True)
    for error in (QueueFull("x"), Overloaded("x"), DuplicateRequest("r")):
        with pytest.raises(type(error)), books.refusals_of(BATCH):
            raise error
    samples = {
        (sample.name.removeprefix("dspark_scheduler_"), *sample.labels.values()): sample.value
        for metric in collect(books)
        for sample in metric.samples
    }
    counted = {key: value for key, value in samples.items() if "queue_seconds" not in key[0]}
    assert counted == {
        ("slo_requests_total", "interactive", "true"): 1,
        ("slo_requests_total", "interactive", "false"): 1,
        ("slo_requests_total", "batch", "true"): 0,
        ("slo_requests_total", "batch", "false"): 1,
        ("refusals_total", "interactive", "queue_full"): 0,
        ("refusals_total", "interactive", "overloaded"): 0,
        ("refusals_total", "batch", "queue_full"): 1,
        ("refusals_total", "batch", "overloaded"): 1,
    }
    assert samples["queue_seconds_count", "interactive"] == 1
    assert samples["queue_seconds_sum", "interactive"] == pytest.approx(0.02)
