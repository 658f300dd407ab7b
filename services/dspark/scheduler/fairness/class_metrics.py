"""Metrics of the classes of requests. Tenants are never a label: there is no bound on them."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from dspark.metrics.families import Catalogue
from dspark.request_class import RequestClass
from dspark.scheduler.fairness.class_books import REFUSALS, ClassBooks

FAMILIES = Catalogue()
_OWN = FAMILIES.prefixed("dspark_scheduler_", ("class",))

SLO_REQUESTS = _OWN.counter(
    "slo_requests",
    "Ended requests by whether they met the targets of their class; cancelled ones are left out.",
    ("met",),
)
QUEUE_SECONDS = _OWN.histogram("queue_seconds", "Time until a request got onto a verifier.")
REFUSED = _OWN.counter(
    "refusals", "Requests that were refused because too much waits, by reason.", ("reason",)
)


def collect(books: ClassBooks) -> Iterable[Metric]:
    ends, refusals = dict(books.ends), dict(books.refusals)
    yield SLO_REQUESTS.many(
        ((each.value, str(is_met).lower()), ends.get((each, is_met), 0))
        for each in RequestClass
        for is_met in (True, False)
    )
    yield QUEUE_SECONDS.distributions(((each.value,), books.queue_s[each]) for each in RequestClass)
    yield REFUSED.many(
        ((each.value, error.reason.lower()), refusals.get((each, error.reason), 0))
        for each in RequestClass
        for error in REFUSALS
    )
