"""Runs the two sides of an evaluation one after the other, each as a process of its own."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

from dspark.cli.evaluation.config import EvalConfig
from dspark.cli.failure import CliError
from dspark.cli.models.child_output import run_part
from dspark.cli.progress import Part, Progress
from dspark.cli.supervision.launch import launch_command
from dspark.config import to_arguments
from dspark.verifier.evaluation.plan import EvaluationPlan
from dspark.verifier.evaluation.results import EvaluationResult
from dspark.verifier.evaluation.roles import OTHER, REFERENCE
from dspark.verifier.evaluation.workspace import Workspace

_MODULE = "dspark.verifier.evaluation"
_ERROR = "error: "
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
_USAGE = 2


def run_sides(
    plan: EvaluationPlan, config: EvalConfig, directory: Path, progress: Progress
) -> tuple[EvaluationResult, EvaluationResult]:
    """The reference's and the other's results on the model in ``directory``; raises CliError."""
    with tempfile.TemporaryDirectory(prefix="dspark-eval-") as folder:
        workspace = Workspace(Path(folder))
        try:
            workspace.write_plan(plan)
        except OSError as error:
            raise CliError(f"cannot evaluate: {folder}: {error.strerror}") from error
        for role, dtype in ((REFERENCE, config.reference), (OTHER, config.weight_dtype)):
            settings = to_arguments(config.verifier(str(directory), dtype))
            with progress.part(f"evaluating {dtype}") as part:
                _run_side([role, folder, *settings], dtype, part)
        return workspace.read_result(REFERENCE), workspace.read_result(OTHER)


def _run_side(arguments: list[str], dtype: str, part: Part) -> None:
    code, last = run_part(launch_command(_MODULE, arguments), part, _ENVIRONMENT)
    last = last.removeprefix(_ERROR)
    if code < 0:
        last = f"the process was killed by {signal.Signals(-code).name}"
    if code != 0:
        raise CliError(f"cannot evaluate {dtype}: {last}", _USAGE if code == _USAGE else 1)
