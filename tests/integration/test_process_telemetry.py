"""Logs and traces of a process: JSON lines, its settings, what is refused, what is imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e


def lines_of(folder: Path, **variables: str) -> list[dict[str, object]]:
    """What a candidates process logs from its start to SIGTERM."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "dspark.candidates", "--log-format", "json"),
            *("--listen", f"unix:{folder / 'c.sock'}", "--drain-s", "0.1"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stderr:
            lines.append(json.loads(line))
            if str(lines[-1]["message"]).startswith("candidates on"):
                process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    return lines


def test_every_line_is_an_object_and_no_secret_is_told(tmp_path: Path) -> None:
    # A closed port: the store's trouble is logged like everything else.
    url = "redis://:secret@127.0.0.1:9/0"
    lines = lines_of(tmp_path, DSPARK_REDIS_URL=url, DSPARK_LOG_LEVEL="debug")
    first = next(line for line in lines if line["message"] == "candidates settings")
    settings = first["settings"]
    assert isinstance(settings, dict)
    assert settings["redis_url"] == "redis://:***@127.0.0.1:9/0"
    assert settings["drain_s"] == 0.1
    assert "secret" not in json.dumps(lines)
    for line in lines:
        assert {"timestamp", "level", "logger", "message", "service"} <= set(line)
        assert line["service"] == "candidates"


def test_traces_that_cannot_be_are_refused_by_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dspark.candidates", "--listen", f"unix:{tmp_path / 'c.sock'}"],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        },
    )
    assert done.returncode == 2
    assert "OTEL_EXPORTER_OTLP_PROTOCOL" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["scheduler.server", "verifier.server", "client"])
def test_opentelemetry_is_not_imported_where_traces_are_off(module: str) -> None:
    # Libraries of the other services import it for themselves.
    code = (
        f"import sys, dspark.{module}; from dspark.telemetry import tracing; "
        "tracing.start('x', {}); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
