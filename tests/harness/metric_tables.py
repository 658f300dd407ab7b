"""The metrics of every service as declared, and the tables of docs/metrics.md made from them.

``python tests/harness/metric_tables.py`` writes the tables anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dspark.candidates import metrics as candidates
from dspark.gateway import metrics as gateway
from dspark.metrics.families import Catalogue, Family, Kind
from dspark.scheduler import metrics as scheduler
from dspark.verifier import metrics as verifier
from harness.repository import ROOT

PAGE = ROOT / "docs" / "metrics.md"
CATALOGUES: dict[str, Catalogue] = {
    module.SERVICE: module.FAMILIES for module in (gateway, scheduler, candidates, verifier)
}
# Made by prometheus_client for every service.
PROCESS_METRICS = (
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
)


def wire_name(family: Family) -> str:
    """The name that queries use."""
    return family.name + ("_total" if family.kind is Kind.COUNTER else "")


def sample_names(family: Family) -> set[str]:
    """The names of its series."""
    if family.kind is Kind.HISTOGRAM:
        return {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
    return {wire_name(family)}


def table(catalogue: Iterable[Family]) -> str:
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for family in catalogue:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{wire_name(family)}` | {family.kind.value} | {labels} | {family.text} |")
    return "\n".join(rows)


def with_tables(page: str) -> str:
    """The page with the table under each ``## <service>`` heading as it must be."""
    text, *sections = re.split(r"(?m)^(?=## )", page)
    by_heading = {section.partition("\n")[0]: section for section in sections}
    for service, catalogue in CATALOGUES.items():
        heading = f"## {service.capitalize()}"
        before, mark, _ = by_heading[heading].partition("| metric |")
        assert mark, f"{PAGE.name} has no table under {heading}"
        by_heading[heading] = f"{before}{table(catalogue)}\n\n"
    return "".join([text, *by_heading.values()]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
