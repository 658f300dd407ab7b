"""Directories of a run."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from dspark.cli.supervision import runtime_dir as module
from dspark.cli.supervision.runtime_dir import log_dir, runtime_dir


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_private_and_gone_afterwards() -> None:
    with runtime_dir() as path:
        assert path.stat().st_mode & 0o777 == 0o700
        (path / "x.sock").touch()
    assert not path.exists()


def test_leftovers_go_and_running_ones_stay(temporary: Path) -> None:
    dead = temporary / "dspark-dead"
    dead.mkdir()
    (dead / "lock").touch()
    stranger = temporary / "dspark-stranger"
    stranger.mkdir()
    with runtime_dir() as first, runtime_dir() as second:
        assert first.is_dir()
        assert second.is_dir()
        assert not dead.exists()
        assert stranger.is_dir()


def test_old_logs_go(logs: Path, dead_pid: int) -> None:
    for day in range(1, 5):
        (logs / f"2020010{day}-000000-{dead_pid}").mkdir()
    new = log_dir()
    kept = sorted(path.name for path in logs.iterdir())
    assert kept == [f"20200104-000000-{dead_pid}", new.name]


def test_logs_of_runs_that_go_on_stay(logs: Path, dead_pid: int) -> None:
    live = logs / f"20200101-000000-{os.getppid()}"
    live.mkdir()
    for day in range(2, 5):
        (logs / f"2020010{day}-000000-{dead_pid}").mkdir()
    log_dir()
    assert live.is_dir()
    assert not (logs / f"20200102-000000-{dead_pid}").exists()


@pytest.fixture
def logs(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent of all log directories, of which two are kept."""
    monkeypatch.setattr(module, "_KEPT_LOGS", 2)
    (cache_dir / "logs").mkdir(parents=True)
    return cache_dir / "logs"


@pytest.fixture
def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid
