"""What metrics a service has: each is declared once, with the labels that it always carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from dspark.metrics.distribution import Distribution

Labels = tuple[str, ...]
Collect = Callable[[], Iterable[Metric]]


class Kind(Enum):
    """The Prometheus type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. A counter's name gets ``_total`` on the wire, as Prometheus wants it."""

    kind: Kind
    name: str
    text: str
    labels: Labels = ()

    def one(self, value: float, *labels: str) -> Metric:
        """The family with one sample."""
        return self.many([(labels, value)])

    def many(self, samples: Iterable[tuple[Sequence[str], float]]) -> Metric:
        """The family with a sample for each of (label values, value)."""
        assert self.kind is not Kind.HISTOGRAM, self.name
        of_kind = CounterMetricFamily if self.kind is Kind.COUNTER else GaugeMetricFamily
        family = of_kind(self.name, self.text, labels=self.labels)
        for labels, value in samples:
            family.add_metric(labels, value)
        return family

    def distributions(self, samples: Iterable[tuple[Sequence[str], Distribution]]) -> Metric:
        """The histogram with each of (label values, distribution)."""
        assert self.kind is Kind.HISTOGRAM, self.name
        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        for labels, distribution in samples:
            buckets = [(_bound(bound), n) for bound, n in distribution.cumulative()]
            family.add_metric(labels, buckets, distribution.total)
        return family


class Catalogue:
    """All families of a service, in the order in which they are declared."""

    def __init__(self, parts: Iterable[Catalogue] = ()) -> None:
        self._families: dict[str, Family] = {}
        for part in parts:
            for family in part:
                self.add(family)

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())

    def prefixed(self, prefix: str, labels: Labels = ()) -> Declarations:
        """Declares families whose names begin with ``prefix``, and their labels with these."""
        return Declarations(self, prefix, labels)

    def counter(self, name: str, text: str, labels: Labels = ()) -> Family:
        return self.prefixed("").counter(name, text, labels)

    def gauge(self, name: str, text: str, labels: Labels = ()) -> Family:
        return self.prefixed("").gauge(name, text, labels)

    def histogram(self, name: str, text: str, labels: Labels = ()) -> Family:
        return self.prefixed("").histogram(name, text, labels)

    def add(self, family: Family) -> Family:
        assert family.name not in self._families, f"{family.name} is declared twice"
        self._families[family.name] = family
        return family


@dataclass(frozen=True, slots=True)
class Declarations:
    """Declares families of one catalogue that share how they are named and labelled."""

    catalogue: Catalogue
    prefix: str
    labels: Labels

    def counter(self, name: str, text: str, labels: Labels = ()) -> Family:
        return self._declare(Kind.COUNTER, name, text, labels)

    def gauge(self, name: str, text: str, labels: Labels = ()) -> Family:
        return self._declare(Kind.GAUGE, name, text, labels)

    def histogram(self, name: str, text: str, labels: Labels = ()) -> Family:
        return self._declare(Kind.HISTOGRAM, name, text, labels)

    def _declare(self, kind: Kind, name: str, text: str, labels: Labels) -> Family:
        return self.catalogue.add(Family(kind, self.prefix + name, text, (*self.labels, *labels)))


class CollectedOnDemand(Collector):
    """Asks the service for its families whenever Prometheus asks."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(float(bound))
