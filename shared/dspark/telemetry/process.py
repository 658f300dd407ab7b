"""Logs and traces of a service's process, from its start to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dspark.telemetry import logs, tracing
from dspark.telemetry.logs import LogSettings


@contextmanager
def telemetry(service: str, config: LogSettings) -> Iterator[None]:
    """Around the run of a service; raises SettingError. What waits to be sent is sent at the end,
    for a moment at most.
    """
    logs.configure(service, config)
    tracing.start(service)
    try:
        yield
    finally:
        tracing.stop()
