"""Keeps what was learnt of scores across restarts, apart for each model."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

from dspark.scheduler.calibration import Calibration

log = logging.getLogger(__name__)

FORMAT = 2
# Models that were served longest ago are forgotten.
MAX_MODELS = 16


class CalibrationStore:
    """One calibration for each weights' digest; a file that cannot be used costs what was in it."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._calibrations: dict[str, Calibration] = {}
        self._has_failed = False

    @classmethod
    def load(cls, path: str) -> CalibrationStore:
        """From a file, which need not exist; nowhere if ``path`` is empty."""
        store = cls(Path(path) if path else None)
        if path:
            store._read(Path(path))
        return store

    def of(self, model_digest: str) -> Calibration:
        """That of a model, which becomes the latest."""
        calibration = self._calibrations.pop(model_digest, None) or Calibration()
        self._calibrations[model_digest] = calibration
        return calibration

    def save(self) -> None:
        """Replace the file as a whole; says so once if that fails."""
        if self._path is None or not self._calibrations:
            return
        latest = list(self._calibrations.items())[-MAX_MODELS:]
        models = {digest: calibration.state() for digest, calibration in latest}
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps({"format": FORMAT, "models": models}))
            temporary.replace(self._path)
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                log.warning("calibration is not saved to %s: %s", self._path, error)
            self._has_failed = True

    def _read(self, path: Path) -> None:
        try:
            content: Any = json.loads(path.read_text())
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']}")
            read = {str(d): Calibration.restored(s) for d, s in content["models"].items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("calibration starts anew, %s is of no use: %r", path, error)
            return
        self._calibrations = read
