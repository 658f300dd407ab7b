"""Counting processors inside containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dspark.verifier.native.cpu_count import usable_cpus


@pytest.fixture(autouse=True)
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("5000 100000", 1),
        ("6400000 100000", 8),
        ("nonsense", 8),
    ],
)
def test_the_quota_of_the_container(tmp_path: Path, quota: str, expected: int) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(quota + "\n")
    assert usable_cpus(path) == expected


def test_without_a_quota_file(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path / "missing") == 8
