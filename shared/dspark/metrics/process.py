"""What every service says of itself: its build, and the process it runs in."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from dspark.metrics.families import Catalogue, Collect, CollectedOnDemand

FAMILIES = Catalogue()
_BUILD = FAMILIES.gauge(
    "dspark_build_info",
    "1, with the service and the versions that it runs.",
    ("service", "version", "python_version"),
)


def service_registry(service: str, collect: Collect) -> CollectorRegistry:
    """A registry with the families that ``collect`` yields, the build and the process."""
    registry = CollectorRegistry()
    labels = (service, version("dspark"), platform.python_version())

    def build() -> Iterable[Metric]:
        yield _BUILD.one(1, *labels)

    for part in (collect, build):
        registry.register(CollectedOnDemand(part))
    ProcessCollector(registry=registry)
    return registry
