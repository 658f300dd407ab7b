"""Files and functions stay small; the figures are printed with every run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from harness.repository import ROOT, sources

MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 50


@dataclass(frozen=True, order=True)
class Sized:
    """A file or function and its number of non-blank lines."""

    lines: int
    name: str


def filled(lines: list[str]) -> int:
    return sum(1 for line in lines if line.strip())


def functions_of(path: Path, lines: list[str]) -> list[Sized]:
    name = path.relative_to(ROOT)
    return [
        Sized(filled(lines[node.lineno - 1 : node.end_lineno]), f"{name}:{node.name}")
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@pytest.fixture(scope="module")
def files() -> list[Sized]:
    return sorted(
        (Sized(filled(p.read_text().splitlines()), str(p.relative_to(ROOT))) for p in sources()),
        reverse=True,
    )


@pytest.fixture(scope="module")
def functions() -> list[Sized]:
    return sorted(
        (f for p in sources() for f in functions_of(p, p.read_text().splitlines())), reverse=True
    )


def report(kind: str, sized: list[Sized]) -> str:
    head = f"{len(sized)} {kind}, {sum(s.lines for s in sized)} lines, median "
    head += f"{median(s.lines for s in sized):g}; the ten largest:"
    return "\n".join([head, *(f"{s.lines:6} {s.name}" for s in sized[:10])])


def test_print_sizes(
    files: list[Sized], functions: list[Sized], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print("", report("files", files), report("functions", functions), sep="\n")
    assert files and functions


def test_no_file_is_over_the_ceiling(files: list[Sized]) -> None:
    assert [f for f in files if f.lines > MAX_FILE_LINES] == []


def test_no_function_is_over_the_ceiling(functions: list[Sized]) -> None:
    assert [f for f in functions if f.lines > MAX_FUNCTION_LINES] == []
