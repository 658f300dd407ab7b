"""`dspark drain` against a scheduler: says when a verifier is empty, and who is none."""

from __future__ import annotations

import argparse
import asyncio
import time

import pytest

from dspark.cli import drain_command
from dspark.cli.__main__ import build_parser
from dspark.cli.failure import CliError
from dspark.errors import InvalidArgument
from dspark.sampling import SamplingParams
from harness.fake_verifier import FakeVerifier
from harness.running_scheduler import make_request, running_scheduler
from harness.waiting import until


def arguments(*words: str) -> argparse.Namespace:
    return build_parser().parse_args(["drain", *words])


async def drain(*words: str) -> int:
    return await asyncio.to_thread(drain_command.run, arguments(*words))


async def test_a_verifier_runs_empty_and_is_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    async with FakeVerifier(forward_s=lambda rows: 0.005) as first, FakeVerifier() as second:
        async with running_scheduler((first.target, second.target)) as scheduler:
            workers = scheduler.server.scheduler.pool.workers
            await until(lambda: all(worker.is_serving for worker in workers))
            sampling = SamplingParams(max_tokens=100, ignore_eos=True)
            request = make_request("r", (1, 2, 3), sampling)
            running = asyncio.create_task(scheduler.client.generate(request))
            await until(lambda: bool(first.sequences) or bool(second.sequences))
            where = first if first.sequences else second
            to = f"--scheduler={scheduler.target}"
            assert await drain(where.target, to) == 0
            # The step with its release may be on its way still.
            await until(lambda: not where.sequences)
            assert await drain(where.target, to, "--resume") == 0
            assert len((await running).token_ids) == 100
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{where.target} has 0 requests, and gets no new ones",
        f"{where.target} gets requests again",
    ]


async def test_one_that_cannot_run_empty_in_time_is_told_of() -> None:
    verifier = FakeVerifier(forward_s=lambda rows: 0.01)
    async with verifier, running_scheduler(verifier.target) as scheduler:
        sampling = SamplingParams(max_tokens=200, ignore_eos=True)
        request = make_request("r", (1, 2, 3), sampling)
        running = asyncio.create_task(scheduler.client.generate(request))
        await until(lambda: bool(verifier.sequences))
        to = f"--scheduler={scheduler.target}"
        with pytest.raises(CliError, match="still has 1 requests"):
            await drain(verifier.target, to, "--timeout-s=0.1")
        started = time.monotonic()
        assert await drain(verifier.target, to, "--timeout-s=0") == 0
        assert time.monotonic() - started < 10
        assert len((await running).token_ids) == 200


async def test_an_unknown_verifier_is_named() -> None:
    async with FakeVerifier() as verifier, running_scheduler(verifier.target) as scheduler:
        with pytest.raises(InvalidArgument, match="no verifier here"):
            await drain("10.0.0.1:50061", f"--scheduler={scheduler.target}")
