"""Plain distributions, declared families, and the endpoint that shows them."""

from __future__ import annotations

import socket
import urllib.request
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dspark.config import SettingError
from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution
from dspark.metrics.endpoint import MetricsEndpoint
from dspark.metrics.families import Catalogue, CollectedOnDemand
from dspark.metrics.process import service_registry

BOUNDS = (0.5, 1.0, 2.0)
ALL_BUCKETS = [getattr(buckets, name) for name in vars(buckets) if name.isupper()]


def registry_of(*metrics: object) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(CollectedOnDemand(lambda: metrics))  # type: ignore[arg-type,return-value]
    return registry


@given(st.lists(st.floats(-1, 5), max_size=50))
def test_a_distribution_counts_as_prometheus_does(values: list[float]) -> None:
    ours = Distribution(BOUNDS)
    family = Catalogue().histogram("taken", "Times.", ("part",))
    theirs = CollectorRegistry()
    histogram = Histogram("taken", "Times.", ("part",), buckets=BOUNDS, registry=theirs)
    child = histogram.labels(part="a")
    for value in values:
        ours.observe(value)
        child.observe(value)
    text = generate_latest(registry_of(family.distributions([(("a",), ours)]))).decode()
    reference = [
        line for line in generate_latest(theirs).decode().splitlines() if "_created" not in line
    ]
    assert _samples(text) == pytest.approx(_samples("\n".join(reference) + "\n"))
    assert ours.count == len(values)


def _samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("bounds", ALL_BUCKETS, ids=str)
def test_bounds_ascend(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))
    assert all(bisect_left(bounds, bound) == index for index, bound in enumerate(bounds))


def test_a_family_shows_its_samples() -> None:
    catalogue = Catalogue()
    counter = catalogue.counter("steps", "Steps.", ("worker",))
    gauge = catalogue.gauge("size", "Size.")
    text = generate_latest(registry_of(counter.many([(("a",), 2)]), gauge.one(3))).decode()
    assert 'steps_total{worker="a"} 2.0' in text and "# TYPE steps_total counter" in text
    assert "size 3.0" in text and "# HELP size Size." in text


def test_a_name_is_declared_once() -> None:
    catalogue = Catalogue()
    catalogue.counter("steps", "Steps.")
    with pytest.raises(AssertionError, match="declared twice"):
        catalogue.gauge("steps", "Again.")


def test_every_service_has_its_build_and_process() -> None:
    text = generate_latest(service_registry("toy", lambda: ())).decode()
    assert "dspark_build_info{" in text and 'service="toy"' in text
    assert "process_resident_memory_bytes" in text and "process_open_fds" in text


def test_the_endpoint_answers_until_it_is_closed() -> None:
    family = Catalogue().gauge("size", "Size.")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = MetricsEndpoint(registry_of(family.one(3)), port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"size 3.0" in answer.read()
        with pytest.raises(SettingError, match=f"--metrics-port {port}: cannot listen"):
            MetricsEndpoint(registry_of(), port)
    finally:
        endpoint.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1)


def test_port_zero_is_no_endpoint() -> None:
    MetricsEndpoint(registry_of(), 0).close()


def test_a_port_that_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match="--metrics-port 70000"):
        MetricsEndpoint(registry_of(), 70000)
