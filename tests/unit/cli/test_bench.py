"""The bench command: flags, order of runs, verdict."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dspark.cli import bench
from dspark.cli.__main__ import run
from dspark.cli.benchmark.load import LoadSettings, run_load
from dspark.cli.benchmark.plan import BenchPrompt, plan_requests
from harness.completions import make_completion

PROMPTS = '[{"kind": "k", "prompt": "one"}, {"kind": "k", "prompt": "two"}]'


class FakeClient:
    """Answers by prompt and seed; with ``broken`` speculation changes one answer."""

    broken = False

    def __init__(self, target: str = "") -> None:
        self.in_flight = self.most_in_flight = 0
        self.seen: list[dict[str, Any]] = []

    async def generate(self, prompt: str, **options: Any) -> Any:
        self.seen.append(options | {"prompt": prompt})
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.001)
        self.in_flight -= 1
        wrong = self.broken and options["speculation"] and prompt == "two"
        return make_completion((len(prompt), options["seed"], int(wrong)))

    async def __aenter__(self) -> FakeClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    client = FakeClient()

    @asynccontextmanager
    async def target(*_: object) -> AsyncIterator[str]:
        yield "target"

    monkeypatch.setattr(bench, "serving_target", target)
    monkeypatch.setattr(bench, "AsyncClient", lambda target, tls: client)
    return client


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "prompts.json").write_text(PROMPTS)
    return ["bench", "--prompts", str(tmp_path / "prompts.json"), "--json", str(tmp_path / "out")]


def test_results_that_cannot_be_written_are_one_line_before_measuring(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "nothing" / "out"
    assert run([*command[:3], "--json", str(out), "--base-url", "127.0.0.1:1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"--json {out}" in error


async def test_a_run_keeps_so_many_in_flight_and_keeps_the_order() -> None:
    client: Any = FakeClient()
    requests = plan_requests([BenchPrompt("k", "p" * n) for n in range(1, 8)], 4, seed=0)
    settings = LoadSettings(max_tokens=9, temperature=0.5, use_prefix_cache=False)
    result = await run_load(client, requests, settings, speculation=True, concurrency=4)
    assert client.most_in_flight == 4
    assert [each.token_ids[1] for each in result.completions] == [r.seed for r in requests]
    assert {(o["max_tokens"], o["temperature"], o["use_prefix_cache"]) for o in client.seen} == {
        (9, 0.5, False)
    }


async def test_equal_prompts_never_share_a_cache() -> None:
    client: Any = FakeClient()
    requests = plan_requests([BenchPrompt("k", "one")], 2, seed=0)
    settings = LoadSettings(max_tokens=9, temperature=0.0, use_prefix_cache=False)
    for switch in (True, False):
        await run_load(client, requests, settings, speculation=switch, concurrency=2)
    salts = [options["cache_salt"] for options in client.seen]
    assert len(set(salts)) == len(salts)


def test_equal_tokens_are_exit_code_0(
    client: FakeClient, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--concurrency", "1,2", "--repeats", "2"]) == 0
    results = json.loads((tmp_path / "out").read_text())
    assert results["identical"] is True
    assert results["compared_requests"] == 2 * (2 + 8)
    kinds = [(each["concurrency"], each["speculation"]) for each in results["runs"]]
    assert kinds == [(1, "on"), (1, "off"), (2, "on"), (2, "off")]
    assert "identical" in capsys.readouterr().out


def test_different_tokens_are_exit_code_1(
    client: FakeClient, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    client.broken = True
    assert run([*command, "--concurrency", "1"]) == 1
    assert "NOT identical" in capsys.readouterr().out


def test_every_other_repeat_swaps_on_and_off(client: FakeClient, command: list[str]) -> None:
    run([*command, "--concurrency", "1", "--repeats", "2", "--max-tokens", "77"])
    measured = [o["speculation"] for o in client.seen if o["max_tokens"] == 77]
    assert measured[::2] == [True, False, False, True]


@pytest.mark.parametrize(
    "flags",
    [
        ["--concurrency", "0"],
        ["--concurrency", "1,x"],
        ["--speculation", "maybe"],
        ["--max-tokens", "0"],
        ["--repeats", "0"],
        ["--temperature", "hot"],
    ],
)
def test_bad_flags_are_named(
    command: list[str], flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run([*command, *flags])
    assert caught.value.code == 2
    assert flags[0] in capsys.readouterr().err


def test_lists_keep_their_order_and_drop_repeats() -> None:
    parser = argparse.ArgumentParser()
    bench.add_parser(parser)
    flags = ["--prompts", "x", "--concurrency", "8,1,8", "--speculation", "off,on,off"]
    arguments = parser.parse_args(flags)
    assert arguments.concurrency == (8, 1)
    assert arguments.speculation == (False, True)
