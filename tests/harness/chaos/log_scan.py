"""Reads in the logs of a fleet what must not be there, whatever was done to it."""

from __future__ import annotations

import re

from harness.chaos.fleet import Fleet

_BAD = re.compile(r"Traceback|CRITICAL|never retrieved|AssertionError|RuntimeWarning")
_SHOWN = 3


def complaints(fleet: Fleet) -> list[str]:
    """A few lines of each log that speak of bugs."""
    found = []
    for name, process in fleet.processes.items():
        lines = process.log_path.read_text(errors="replace").splitlines()
        numbers = [number for number, line in enumerate(lines) if _BAD.search(line)]
        for number in numbers[:_SHOWN]:
            shown = " | ".join(line.strip() for line in lines[max(number - 1, 0) : number + 12])
            found.append(f"{name} log line {number + 1} of {len(numbers)} such: {shown[:600]}")
    return found
