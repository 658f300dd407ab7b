"""One child process and its log."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from dspark.cli.supervision import child as module
from dspark.cli.supervision.child import Child
from dspark.cli.supervision.spec import ServiceSpec

# More than a pipe holds, so that a child blocks unless somebody reads.
NUM_LINES = 20_000


@pytest.fixture(autouse=True)
def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is a program that prints many lines and ends."""
    code = f"for n in range({NUM_LINES}): print('line', n)"
    monkeypatch.setattr(module, "launch_command", lambda *_: [sys.executable, "-c", code])


def make_child(log_path: Path) -> Child:
    return Child(ServiceSpec("talker", "m", "unix:/x", "X", []), log_path, lambda _: None)


async def run_to_end(child: Child) -> int:
    await child.start()
    return await asyncio.wait_for(child.wait(), 30)


async def test_a_log_folder_that_went_is_made_anew_at_a_restart(tmp_path: Path) -> None:
    child = make_child(tmp_path / "logs" / "talker.log")
    assert await run_to_end(child) == 0
    shutil.rmtree(tmp_path / "logs")
    assert await run_to_end(child) == 0
    assert len(child.log_path.read_text().splitlines()) == NUM_LINES


@pytest.mark.parametrize("problem", ["folder", "disk"])
async def test_a_child_ends_though_its_log_cannot_be_written(tmp_path: Path, problem: str) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "talker.log" if problem == "folder" else Path("/dev/full")
    child = make_child(path)
    assert await run_to_end(child) == 0
    assert f"line {NUM_LINES - 1}" in child.describe_end(0)
