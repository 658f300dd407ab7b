"""Whatever is wrong with what a command is given: one line on stderr, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark.cli.__main__ import run

FILES = {
    "empty": b"",
    "binary": b"\xff\xfe",
    "text": b"a text",
    "broken.json": b'{"a":',
    "none.json": b"[]",
    "object.json": b"{}",
    "broken.jsonl": b'{"prompt": "a"}\n[1\n',
    "other.jsonl": b'{"x": 1}\n',
    "good.jsonl": b'{"prompt": "a"}\n',
}
NO_FILE, NO_TEXT, A_FOLDER = "No such file", "is not UTF-8 text", "Is a directory"
CASES = {
    "simulate": [
        ("--system missing", NO_FILE),
        ("--system binary", NO_TEXT),
        ("--system broken.json", "--system broken.json: Expecting value"),
        ("--system object.json", "lacks a field"),
        ("--calibrate-from empty", "has fewer than two steps"),
        ("--calibrate-from binary", NO_TEXT),
        ("--calibrate-from object.json", "is no record of calls"),
        ("--trace empty", "has no requests"),
        ("--trace binary", NO_TEXT),
        ("--trace other.jsonl", "line 1 has no field 'x'"),
        ("--policy ,", "--policy must name one of economic, fixed, threshold, off"),
        ("--policy best", "--policy: 'best' is not one of"),
        ("--rate ,", "--rate must have at least one number"),
        ("--concurrency ,", "--concurrency must have at least one number"),
        ("--speeds -1", "--speeds must be numbers above 0"),
        ("--workers x", "--workers: invalid int value: 'x'"),
        ("--requests -5", "--requests must be at least 1"),
        ("--ageing-s -1", "--ageing-s must be above 0"),
        ("--arrivals odd", "--arrivals: invalid choice: 'odd'"),
    ],
    "replay": [
        ("missing", NO_FILE),
        ("empty", "no decisions in it"),
        ("binary", NO_TEXT),
        (".", A_FOLDER),
        ("broken.json", "line 1: Expecting value"),
        ("none.json", "line 1: not a logged step"),
        ("object.json --policy best", "invalid choice: 'best'"),
        ("object.json --num-draft-tokens 0", "--num-draft-tokens must be above 0"),
        ("object.json --min-survival nan", "--min-survival must be above 0"),
        ("object.json --min-gain -1", "--min-gain must be 0 or more"),
    ],
    "bench": [
        ("", "--prompts"),
        ("--prompts missing", NO_FILE),
        ("--prompts empty", "Expecting value"),
        ("--prompts binary", NO_TEXT),
        ("--prompts .", A_FOLDER),
        ("--prompts none.json", "must be a list with at least one prompt"),
        ("--prompts object.json", "must be a list with at least one prompt"),
        ("--prompts none.json --max-tokens x", "'x' is no whole number of at least 1"),
        ("--prompts none.json --max-tokens -1", "'-1' is no whole number of at least 1"),
        ("--prompts none.json --concurrency ,", "'' is no whole number of at least 1"),
        ("--prompts none.json --temperature nan", "'nan' is no number from 0"),
        ("--prompts none.json --temperature -1", "'-1' is no number from 0"),
    ],
    "train ngram": [
        ("", "--out: name a directory"),
        ("--out out", "give --data FILE, --self-generate N, or both"),
        ("--out out --data missing", f"--data missing: {NO_FILE}"),
        ("--out out --data .", A_FOLDER),
        ("--out out --data empty", "has no prompt"),
        ("--out out --data text", "is too short for a text"),
        ("--out out --data binary", NO_TEXT),
        ("--out out --data broken.jsonl", "--data broken.jsonl:2: Expecting ',' delimiter"),
        ("--out out --data other.jsonl", '--data other.jsonl:1: expected {"prompt": "..."}'),
        ("--out out --data good.jsonl --exclude missing", f"--exclude missing: {NO_FILE}"),
        ("--out out --data good.jsonl --exclude broken.json", "--exclude broken.json: Expecting"),
        ("--out out --data good.jsonl --exclude object.json", "must be a list of"),
        ("--out out --data good.jsonl --prompt-template x", "must have {user} exactly once"),
        ("--out out --data good.jsonl --start-from missing", "--start-from missing: no such"),
        ("--out text --data good.jsonl", "--out text: File exists"),
        ("--out text/x --data good.jsonl", "--out text/x: Not a directory"),
        ("--out out --self-generate -1", "must not be below 0"),
        ("--out out --self-generate 1 --weight-dtype odd", "invalid choice: 'odd'"),
    ],
    "index": [
        ("missing --name a --out c", NO_FILE),
        ("text --name A! --out c", "--name 'A!' must be"),
        ("text --name a --out missing/c", NO_FILE),
        ("text --name a", "give --out FILE or --redis-url URL"),
        ("text --name a --redis-url nonsense", "--redis-url"),
    ],
    "eval": [
        ("", "give --text FILE, --prompts FILE.json, or both"),
        ("--text missing", NO_FILE),
        ("--text empty", "is empty"),
        ("--text binary", NO_TEXT),
        ("--prompts broken.json", "Expecting value"),
        ("--prompts object.json", "must be a list with at least one prompt"),
        ("--text text --context -3", "--context must be at least 2"),
        ("--text text --kernels odd", "--kernels: invalid choice: 'odd'"),
    ],
    "drain": [
        ("127.0.0.1:1 --timeout-s -1", "'-1' is no number from 0"),
        ("127.0.0.1:1 --timeout-s nan", "'nan' is no number from 0"),
    ],
}


@pytest.mark.parametrize(
    ("command", "flags", "problem"),
    [(command, *case) for command, cases in CASES.items() for case in cases],
    ids=lambda value: value[:40],
)
def test_it_is_one_line(
    command: str,
    flags: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    try:
        code = run([*command.split(), *flags.split()])
    except SystemExit as ended:
        code = int(str(ended.code))
    error = capsys.readouterr().err
    assert code == 2
    assert problem in error
    assert error.count("\n") == 1
