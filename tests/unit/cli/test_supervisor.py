"""The supervisor over real child processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dspark.cli.failure import CliError
from dspark.cli.supervision import restarts, supervisor
from dspark.cli.supervision.spec import ServiceSpec
from dspark.cli.supervision.supervisor import Supervisor, wait_ready
from harness.processes import is_running, own_children, wait_until
from harness.toy_service import NAME

TESTS = Path(__file__).parents[2]
MODULE = "harness.toy_service"


def own_toys() -> dict[str, int]:
    """Children of other tests' fixtures are not looked at."""
    return {module: pid for module, pid in own_children().items() if module == MODULE}


@pytest.fixture
def events() -> list[str]:
    return []


@pytest.fixture
def supervise(tmp_path: Path, events: list[str]) -> Callable[..., Supervisor]:
    """A supervisor of toy services; each argument is the flags of one."""

    def make(*flags: list[str]) -> Supervisor:
        specs = [
            ServiceSpec(
                name=f"toy{index}",
                module=MODULE,
                address=f"unix:{tmp_path}/toy{index}.sock",
                health_name=NAME,
                arguments=[f"--listen=unix:{tmp_path}/toy{index}.sock", *extra],
                environment={"PYTHONPATH": str(TESTS)},
            )
            for index, extra in enumerate(flags)
        ]
        progress = lambda name, line: events.append(f"{name}: {line}")  # noqa: E731
        return Supervisor(specs, tmp_path, progress, events.append)

    return make


async def test_services_run_until_the_block_ends(
    supervise: Callable[..., Supervisor], events: list[str], tmp_path: Path
) -> None:
    async with supervise([], []) as running:
        await running.wait_ready()
        assert own_toys()
        assert sorted(events) == ["toy0: loading", "toy1: loading"]
    assert not own_toys()
    assert "an ordinary line" in (tmp_path / "toy1.log").read_text()


async def test_a_service_that_ends_at_start_shows_why(
    supervise: Callable[..., Supervisor], tmp_path: Path
) -> None:
    async with supervise([], ["--exit-code", "5"]) as running:
        with pytest.raises(CliError, match="toy1 exited with 5") as caught:
            await running.wait_ready()
    assert "the reason" in str(caught.value)
    assert str(tmp_path / "toy1.log") in str(caught.value)
    assert not own_toys()


async def test_a_cancelled_start_leaves_no_process(supervise: Callable[..., Supervisor]) -> None:
    async with supervise(["--never-ready"]) as running:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(running.wait_ready(), 0.5)
    assert not own_toys()


async def test_a_killed_service_is_restarted(
    supervise: Callable[..., Supervisor], events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_PAUSE_S", 0.01)
    async with supervise([]) as running:
        await running.wait_ready()
        first = own_toys()[MODULE]
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(20):
            while "toy0 serves again" not in events:
                await asyncio.sleep(0.05)
        assert own_toys()[MODULE] != first
    assert any(event.startswith("toy0 was killed by SIGKILL") for event in events)
    assert not own_toys()


async def test_a_service_that_ends_again_and_again_is_given_up(
    supervise: Callable[..., Supervisor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(restarts, "_MAX_ENDS", 1)
    async with supervise([]) as running:
        await running.wait_ready()
        failed = asyncio.create_task(running.wait_failed())
        async with asyncio.timeout(20):
            while not failed.done():
                for pid in own_toys().values():
                    os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.05)
        with pytest.raises(CliError, match=r"(?s)toy0 was killed.*again and again"):
            await failed
    assert not own_toys()


async def test_a_service_that_ignores_sigterm_is_killed(
    supervise: Callable[..., Supervisor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_STOP_GRACE_S", 0.2)
    async with supervise(["--stubborn"]) as running:
        await running.wait_ready()
    assert not own_toys()


async def test_whoever_is_in_a_hurry_need_not_wait_for_them(
    supervise: Callable[..., Supervisor],
) -> None:
    running = supervise(["--stubborn"], ["--stubborn"], [])
    await running.__aenter__()
    await running.wait_ready()
    leaving = asyncio.create_task(running.__aexit__(None, None, None))
    await asyncio.sleep(0.2)
    assert not leaving.done()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(leaving, supervisor._STOP_GRACE_S - 1)
    assert not own_toys()


async def test_waiting_for_a_service_that_is_not_there_goes_on(tmp_path: Path) -> None:
    spec = ServiceSpec("x", MODULE, f"unix:{tmp_path}/none.sock", NAME, [])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait_ready(spec), 0.3)


def test_children_die_with_their_parent(tmp_path: Path) -> None:
    code = (
        "import subprocess, time\n"
        "from dspark.cli.supervision.launch import launch_command\n"
        f"command = launch_command({MODULE!r}, ['--listen=unix:{tmp_path}/s.sock', '--stubborn'])\n"
        "print(subprocess.Popen(command, stderr=subprocess.DEVNULL).pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert wait_until((tmp_path / "s.sock").exists)
        assert is_running(child)
        parent.kill()
    assert wait_until(lambda: not is_running(child))
