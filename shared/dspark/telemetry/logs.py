"""The log of a service: one place for its settings, its form and its first line."""

from __future__ import annotations

import dataclasses
import logging
import re
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from dspark.config import setting
from dspark.telemetry.log_lines import TEXT, JsonLines

FORMATS = ("text", "json")
MASK = "***"
log = logging.getLogger("dspark.config")
_URL_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):\S*@")


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """To be inherited by a service's config, which calls ``check_logs`` when it is made.

    Without slots, because a class cannot inherit those of two.
    """

    log_format: str = setting(FORMATS[0], "form of log lines", choices=FORMATS)
    log_level: str = setting("INFO", "logging level")

    def check_logs(self) -> None:
        """Raises ValueError."""
        if self.log_format not in FORMATS:
            raise ValueError(f"log_format must be one of {', '.join(FORMATS)}")
        if self.log_level.upper() not in logging.getLevelNamesMapping():
            raise ValueError(f"log_level {self.log_level!r} is no level of Python's logging")

    @property
    def logs_json(self) -> bool:
        return self.log_format == "json"


def configure(service: str, config: LogSettings) -> None:
    """Send all logs of the process to stderr in the config's form, and log its settings.

    What libraries log, warnings and uncaught exceptions take the same way.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(service) if config.logs_json else logging.Formatter(TEXT))
    logging.basicConfig(level=config.log_level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    if config.logs_json:
        sys.excepthook = _log_uncaught
    settings = effective(config)
    text = " ".join(f"{name}={value}" for name, value in settings.items())
    shown = "" if config.logs_json else f": {text}"
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
