"""Whether this process traces: started once at its start, asked for wherever a span may begin."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dspark.config import SettingError
from dspark.telemetry.recorder import Recorder
from dspark.telemetry.trace_settings import TraceSettings

if TYPE_CHECKING:
    from dspark.telemetry.opentelemetry_setup import Ending

log = logging.getLogger(__name__)

# Spans that wait to be sent when the process stops get so long.
FLUSH_S = 2.0
GIVE_UP_S = 0.5

_recorder: Recorder | None = None
_ending: Ending | None = None


def active() -> Recorder | None:
    """None where this process does not trace."""
    return _recorder


def start(service: str, environ: Mapping[str, str] = os.environ) -> None:
    """Begin to trace if OTEL_* variables say where to; raises SettingError.

    OpenTelemetry is imported only then.
    """
    global _recorder, _ending
    settings = TraceSettings.of(service, environ)
    if settings is None or _recorder is not None:
        return
    try:
        from dspark.telemetry.opentelemetry_setup import make_recorder
    except ImportError as error:
        missing = f"OTEL_* variables ask for traces, but {error.name} is not installed"
        raise SettingError(f"{missing}: pip install 'dspark[tracing]'") from error
    _recorder, _ending = make_recorder(settings)
    log.info("traces go to %s (%s, %s)", settings.endpoint, settings.exporter, settings.protocol)


def stop(flush_s: float = FLUSH_S) -> None:
    """Send what waits, for at most ``flush_s`` seconds, and trace no more."""
    global _recorder, _ending
    ending, _recorder, _ending = _ending, None, None
    if ending is None:
        return
    # What hangs in the library must not keep the process.
    thread = threading.Thread(target=ending.send_rest, daemon=True)
    thread.start()
    thread.join(flush_s)
    if thread.is_alive():
        ending.give_up()
        thread.join(GIVE_UP_S)
