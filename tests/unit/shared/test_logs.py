"""Log lines: their form, what they carry, and what they hide."""

from __future__ import annotations

import json
import logging
import re
import sys
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import pytest

from dspark.config import setting
from dspark.telemetry import current
from dspark.telemetry.log_lines import JsonLines
from dspark.telemetry.logs import LogSettings, effective
from dspark.telemetry.recorder import OpenSpan, Recorder, Sampled
from dspark.telemetry.span import SpanKind


@dataclass(frozen=True)
class Config(LogSettings):
    """A service's settings."""

    url: str | None = setting(None, "a URL")
    size: int = setting(3, "a size")


def line_of(record: logging.LogRecord) -> dict[str, Any]:
    text = JsonLines("scheduler").format(record)
    assert "\n" not in text
    line: dict[str, Any] = json.loads(text)
    return line


def record_of(message: str, *args: object, **more: Any) -> logging.LogRecord:
    logger = logging.getLogger("dspark.test")
    return logger.makeRecord(
        logger.name, logging.WARNING, __file__, 1, message, args, more.pop("exc_info", None), **more
    )


def test_a_line_says_when_who_and_what() -> None:
    line = line_of(record_of("%d of\n%s", 3, "ä"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("timestamp"))
    assert line == {
        "level": "WARNING",
        "logger": "dspark.test",
        "message": "3 of\nä",
        "service": "scheduler",
    }


def test_a_line_names_the_request_and_the_span_of_its_task() -> None:
    recorder = Recorder(lambda carrier, name: Sampled(True, 0xAB, 0, ""), lambda span: None, False)
    span: OpenSpan = recorder.open("s", "n", SpanKind.SERVER, {})

    def within() -> dict[str, Any]:
        current.request_id.set("r1")
        current.span.set(span)
        return line_of(record_of("x"))

    line = copy_context().run(within)
    assert line["request_id"] == "r1"
    assert line["trace_id"] == f"{0xAB:032x}"
    assert line["span_id"] == f"{span.ids.span_id:016x}"
    assert "request_id" not in line_of(record_of("x"))
    assert line_of(record_of("x", extra={"request_id": "r2"}))["request_id"] == "r2"


def test_an_exception_is_one_field() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        line = line_of(record_of("x", exc_info=sys.exc_info()))
    assert line["exception"].endswith("ValueError: broken")
    assert "Traceback" in line["exception"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("rediss://user:p:w@host/0", "rediss://user:***@host/0"),
        ("redis://user:p@s/s@host/0", "redis://user:***@host/0"),
        (None, None),
    ],
)
def test_effective_settings_mask_passwords(given: str | None, shown: str | None) -> None:
    assert effective(Config(url=given)) == {
        "log_format": "text",
        "log_level": "INFO",
        "url": shown,
        "size": 3,
    }


@pytest.mark.parametrize("bad", [{"log_format": "xml"}, {"log_level": "LOUD"}])
def test_what_cannot_be_is_refused_by_name(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Config(**bad).check_logs()
