"""``dspark simulate`` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dspark.cli.__main__ import run

SHORT = ["simulate", "--requests", "6", "--output-tokens", "8", "--prompt-tokens", "8-16"]


def test_a_sweep_compares_policies_over_the_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = tmp_path / "out.json", tmp_path / "out.html"
    arguments = ["--concurrency", "1,3", "--policy", "off,fixed", "--workers", "2"]
    arguments += ["--speeds", "1,0.5", "--json", str(out), "--plot", str(page)]
    assert run([*SHORT, *arguments]) == 0
    shown = capsys.readouterr().out
    assert "off" in shown and "fixed" in shown and "requests in flight" in shown
    runs = json.loads(out.read_text())["runs"]
    assert [(each["policy"], each["load"]) for each in runs] == [
        ("off", 1.0),
        ("off", 3.0),
        ("fixed", 1.0),
        ("fixed", 3.0),
    ]
    assert all(each["tokens"] == 48 and each["tokens_per_s"] > 0 for each in runs)
    text = page.read_text()
    for title in ("Throughput", "Goodput", "Time to first token", "Price"):
        assert title in text
    assert text.count("<svg") == 9 and text.count(">fixed<") == 9


def test_rates_and_traces_are_loads_as_well(tmp_path: Path) -> None:
    out, trace = tmp_path / "out.json", tmp_path / "t.jsonl"
    lines = [
        {"arrival_s": n, "prompt_tokens": 9, "output_tokens": 3, "tenant": "ab"[n % 2]}
        for n in range(4)
    ]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run([*SHORT, "--trace", str(trace), "--trace-speed", "1,2", "--json", str(out)]) == 0
    runs = json.loads(out.read_text())["runs"]
    assert [each["tokens"] for each in runs] == [12, 12]
    assert runs[0]["seconds"] > 1.5 * runs[1]["seconds"]
    groups = [(group["tenant"], group["requests"]) for group in runs[0]["groups"]]
    assert groups == [("a", 2), ("b", 2)]
    bursts = ["--rate", "2", "--arrivals", "burst", "--burst-size", "3", "--json", str(out)]
    assert run([*SHORT, *bursts]) == 0
    assert json.loads(out.read_text())["runs"][0]["requests"] == 6


def test_a_written_system_is_one_to_simulate(tmp_path: Path) -> None:
    system, first, second = (tmp_path / name for name in ("s.json", "1.json", "2.json"))
    arguments = [*SHORT, "--concurrency", "2"]
    assert run([*arguments, "--write-system", str(system), "--json", str(first)]) == 0
    assert run([*arguments, "--system", str(system), "--json", str(second)]) == 0
    assert json.loads(first.read_text())["runs"] == json.loads(second.read_text())["runs"]


def test_settings_of_the_scheduler_have_their_effect(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = [*SHORT, "--concurrency", "6", "--max-num-seqs", "2", "--json", str(out)]
    assert run(arguments) == 0
    found = json.loads(out.read_text())["runs"][0]
    assert found["batch_size"] <= 2 and found["waiting"]["max"] <= 4


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy", "off,best"], "--policy: 'best' is not one of"),
        (["--concurrency", "0"], "--concurrency must be numbers above 0"),
        (["--concurrency", "1.5"], "--concurrency must be whole numbers"),
        (["--rate", "x"], "--rate: 'x' is no list of numbers"),
        (["--rate", "1", "--concurrency", "1"], "only one of --concurrency, --rate and --trace"),
        (["--prompt-tokens", "many"], "--prompt-tokens: 'many' is no length"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--system", "nothing.json"], "--system nothing.json: No such file"),
        (["--trace", "nothing.jsonl"], "--trace nothing.jsonl: No such file"),
        (["--calibrate-from", "nothing"], "--calibrate-from nothing: No such file"),
        (["--max-num-seqs", "0"], "--max-num-seqs must be above 0"),
        (["--json", "/nowhere/x"], "--json /nowhere/x"),
        (["--plot", "/nowhere/x"], "--plot /nowhere/x"),
        (
            ["--prompt-tokens", "200000", "--requests", "4", "--concurrency", "1"],
            "none of the 4 requests was served: prompt: has 200000 tokens; the model holds 131072",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_requests_that_fit_nowhere_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "trace.jsonl", tmp_path / "out.json"
    trace.write_text(
        '{"arrival_s": 0, "prompt_tokens": 200000, "output_tokens": 2}\n'
        '{"arrival_s": 0, "prompt_tokens": 20, "output_tokens": 2}\n'
    )
    assert run(["simulate", "--trace", str(trace), "--json", str(out)]) == 0
    found = json.loads(out.read_text())["runs"][0]
    assert (found["requests"], found["refused"]) == (1, 1)
    assert found["refusals"] == {"CONTEXT_LENGTH": 1}
    line = "economic at 1: 1 of 2 requests refused: 1 CONTEXT_LENGTH"
    assert line in capsys.readouterr().out.splitlines()
