"""The log of a service: one place for its settings, its form and its first line."""

from __future__ import annotations

import dataclasses
import logging
import re
import sys
from types import TracebackType
from typing import Any

from dspark.config import setting
from dspark.telemetry.log_lines import TEXT, JsonLines

FORMATS = ("text", "json")
MASK = "***"
log = logging.getLogger("dspark.config")
_URL_PASSWORD = re.compile(r"(?<=://)([^/@\s]*):[^/@\s]*@")


def format_setting() -> Any:
    """The field ``log_format`` of a config."""
    return setting(FORMATS[0], "form of log lines", choices=FORMATS)


def level_setting() -> Any:
    """The field ``log_level`` of a config; ``check_level`` checks it."""
    return setting("INFO", "logging level")


def check_level(level: str) -> None:
    """Raises ValueError for what is no level of Python's logging."""
    if level.upper() not in logging.getLevelNamesMapping():
        raise ValueError(f"log_level {level!r} is no level of Python's logging")


def configure(service: str, config: Any) -> None:
    """Send all logs of the process to stderr in the config's form, and log its settings.

    What libraries log, warnings and uncaught exceptions take the same way.
    """
    handler = logging.StreamHandler()
    is_json = config.log_format == "json"
    handler.setFormatter(JsonLines(service) if is_json else logging.Formatter(TEXT))
    logging.basicConfig(level=config.log_level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    if is_json:
        sys.excepthook = _log_uncaught
    settings = effective(config)
    text = " ".join(f"{name}={value}" for name, value in settings.items())
    shown = "" if is_json else f": {text}"
    log.info("%s settings%s", service, shown, extra={"fields": {"settings": settings}})


def effective(config: Any) -> dict[str, Any]:
    """Every setting with its value in use; passwords in URLs are masked."""
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    return {name: _masked(value) for name, value in values.items()}


def _masked(value: Any) -> Any:
    return _URL_PASSWORD.sub(rf"\1:{MASK}@", value) if isinstance(value, str) else value


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger("dspark").critical("uncaught", exc_info=(kind, error, trace))
