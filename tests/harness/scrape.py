"""What a service's metrics say at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dspark.candidates import metrics as candidates_metrics
from dspark.scheduler import metrics as scheduler_metrics
from harness.traced_stack import TracedStack

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Scrape:
    """Samples by name and labels."""

    samples: dict[tuple[str, Labels], float]
    families: frozenset[tuple[str, str, str]]

    @classmethod
    def of(cls, text: str) -> Scrape:
        families = list(text_string_to_metric_families(text))
        return cls(
            {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples},
            frozenset((f.name, f.type, f.documentation) for f in families),
        )

    def sum(self, name: str, **labels: str) -> float:
        """Over all series of the name that have these labels; it must have one."""
        wanted = labels.items()
        found = [
            v for (n, has), v in self.samples.items() if n == name and wanted <= dict(has).items()
        ]
        assert found, f"{name} {labels} has no series"
        return sum(found)

    def by(self, name: str, label: str) -> dict[str, float]:
        """Sums by the values of one label."""
        sums: dict[str, float] = {}
        for (n, labels), value in self.samples.items():
            if n == name:
                key = dict(labels)[label]
                sums[key] = sums.get(key, 0.0) + value
        return sums

    @property
    def num_series(self) -> int:
        return len(self.samples)


@dataclass(frozen=True)
class Scrapes:
    """One of each service, gateway first."""

    gateway: Scrape
    scheduler: Scrape
    candidates: Scrape
    verifier: Scrape


async def scrape_all(stack: TracedStack) -> Scrapes:
    response = await stack.client.get("/metrics")
    assert response.status_code == 200
    whole = stack.stack
    return Scrapes(
        Scrape.of(response.text),
        _of(scheduler_metrics.metrics_registry(whole.scheduler.server.scheduler)),
        _of(candidates_metrics.metrics_registry(whole.proposer)),
        _of(whole.verifier_metrics),
    )


def _of(registry: CollectorRegistry) -> Scrape:
    return Scrape.of(generate_latest(registry).decode())
