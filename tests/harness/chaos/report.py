"""The result of a campaign as a table, and what it violates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from harness.chaos.footprint import Footprint
from harness.chaos.verdict import Verdict


@dataclass(frozen=True)
class Report:
    """``before`` and ``after`` are the footprints of the idle fleet, by process."""

    verdict: Verdict
    faults: Counter[str]
    fault_log: tuple[str, ...]
    started_at: float
    before: Mapping[str, Footprint]
    after: Mapping[str, Footprint]
    leftovers: tuple[str, ...]

    @property
    def violations(self) -> tuple[str, ...]:
        return (*self.verdict.violations, *self.leftovers)

    def __str__(self) -> str:
        verdict = self.verdict
        pause_s, at = verdict.longest_pause
        lines = [
            f"{verdict.num_streams} streams, {verdict.num_identical} ended as undisturbed,"
            f" {verdict.num_hung_up} clients hung up, {verdict.num_retried} lost their gateway;"
            f" longest pause {pause_s:.1f} s ({verdict.patient}, {at - self.started_at:.1f} s)",
            f"{self.faults.total()} faults of {len(self.faults)} kinds",
            *(f"  {count:4d}  {kind}" for kind, count in sorted(self.faults.items())),
            *self.fault_log,
            "process         memory MiB        descriptors       threads",
            *(self._line(name) for name in self.after),
            *(f"VIOLATION {each}" for each in self.violations),
        ]
        return "\n".join(lines)

    def _line(self, name: str) -> str:
        before, after = self.before[name], self.after[name]
        return (
            f"{name:14s} {before.rss_kib / 1024:7.1f} -> {after.rss_kib / 1024:7.1f}"
            f"   {before.num_fds:4d} -> {after.num_fds:4d}"
            f"   {before.num_threads:4d} -> {after.num_threads:4d}"
        )
