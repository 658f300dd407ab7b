"""A system from the record of a real run: what its calls took, and what its candidates guessed.

The throughput of the run is not looked at: it is what a simulation has to find.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dspark.cli.failure import CliError
from dspark.cli.simulate.candidates_model import CandidatesModel
from dspark.cli.simulate.fitting import jitter_of, line_through, true_costs
from dspark.cli.simulate.processor import SchedulerModel
from dspark.cli.simulate.recorded_guesses import RecordedModel
from dspark.cli.simulate.recorded_texts import texts_of
from dspark.cli.simulate.system import System
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.cli.text_input import read_text
from dspark.proposal import SourceRate
from dspark.step import VerifyCost

_USAGE = 2
_FLAG = "--calibrate-from"
_Lines = Sequence[Mapping[str, Any]]


def read_record(path: Path) -> System:
    """Raises CliError for a file that is no record, or has too little in it."""
    lines = _lines(path)
    try:
        return _system(lines, path)
    except (KeyError, TypeError, IndexError) as error:
        raise CliError(f"{_FLAG} {path}: is no record of calls: {error!r}", _USAGE) from error
    except ValueError as error:
        raise CliError(f"{_FLAG} {path}: {error}", _USAGE) from error


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in read_text(path, f"{_FLAG} {path}").splitlines()]
    except ValueError as error:
        raise CliError(f"{_FLAG} {path}: {error}", _USAGE) from error


def _system(lines: _Lines, path: Path) -> System:
    steps = [line for line in lines if line["kind"] == "step"]
    if len(steps) < 2:
        raise ValueError("has fewer than two steps")
    gaps = [(step["requests"], step["gap_ms"]) for step in steps if step["gap_ms"] is not None]
    step_ms, step_ms_per_request = line_through(gaps)
    return System(
        _verifier(lines, steps),
        SchedulerModel(step_ms, step_ms_per_request),
        _candidates(lines),
        f"recorded in {path.name}: {len(steps)} steps",
    )


def _verifier(lines: _Lines, steps: _Lines) -> VerifierModel:
    info = next((line for line in lines if line["kind"] == "verifier"), None)
    if info is None:
        raise ValueError("does not say what the verifier is like")
    # Only steps of one pass say what a pass of so many rows takes.
    passes = [
        (step["rows"], step["context"], step["forward_ms"])
        for step in steps
        if step["forward_ms"] > 0 and step["ahead_rows"] in (0, step["rows"])
    ]
    costs = true_costs([VerifyCost(*each) for each in info["verify_costs"]], passes)
    # What of the pass was over when the step came was not waited for.
    beside = [
        (step["requests"], step["call_ms"] - (step["forward_ms"] - step["ahead_ms"]))
        for step in steps
    ]
    call_ms, call_ms_per_request = line_through(beside)
    return VerifierModel(
        num_blocks=info["num_blocks"],
        block_size=info["block_size"],
        max_step_rows=info["max_step_rows"],
        max_model_len=info["max_model_len"],
        verify_costs=costs,
        call_ms=call_ms,
        call_ms_per_request=call_ms_per_request,
        jitter=jitter_of(costs, passes),
        device=info["device"],
        computes_ahead=info["computes_ahead"],
    )


def _candidates(lines: _Lines) -> CandidatesModel | None:
    """None for a run that asked nobody. The last word on rates counts."""
    asked = [line for line in lines if line["kind"] == "propose"]
    told = [line for line in lines if line["kind"] == "candidates"]
    if not asked or not told:
        return None
    rates = tuple(SourceRate(**rate) for rate in told[-1]["rates"])
    sources = tuple(told[-1]["sources"])
    call_ms, ms_per_request = line_through(
        [(len(each["items"]), each["call_ms"]) for each in asked]
    )
    published_ms = sum(rate.ms_per_request for rate in rates)
    return CandidatesModel(
        call_ms=call_ms,
        call_ms_per_request=max(0.0, ms_per_request - published_ms),
        recorded=RecordedModel(sources, rates, texts_of(lines, sources)),
    )
