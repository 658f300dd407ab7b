"""Log records as lines: text for people, JSON for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from dspark.telemetry import current

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One object a line: time in RFC 3339, level, logger, message, service, and where known the
    request, the span and its trace, the exception, and ``fields`` given with ``extra``.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "timestamp": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "service": self._service,
        }
        if (span := current.span.get()) is not None:
            line["trace_id"] = f"{span.ids.trace_id:032x}"
            line["span_id"] = f"{span.ids.span_id:016x}"
        request_id = getattr(record, "request_id", None) or current.request_id.get()
        if request_id is not None:
            line["request_id"] = request_id
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        line |= getattr(record, "fields", {})
        return json.dumps(line, ensure_ascii=False, default=str)
