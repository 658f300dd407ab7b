"""The two sides of an evaluation, each a process of its own so that one model is loaded at a time.

The reference leaves its continuations and their logits in the workspace; the other compares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dspark.verifier.evaluation.agreement import Agreement
from dspark.verifier.evaluation.plan import EvaluationPlan
from dspark.verifier.evaluation.results import EvaluationResult, ModelRun, TextScore
from dspark.verifier.evaluation.sequence import SequenceRunner
from dspark.verifier.evaluation.tasks import compare, continue_greedily, score_text
from dspark.verifier.evaluation.windows import windows
from dspark.verifier.evaluation.workspace import Workspace
from dspark.verifier.interfaces import LoadedModel, Progress

REFERENCE = "reference"
OTHER = "other"
# Bounds the memory for logits on devices that take thousands of rows a pass.
_MAX_ROWS = 128
_SHOWN_PARTS = 10


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A plan and the loaded model that carries it out."""

    plan: EvaluationPlan
    workspace: Workspace
    model: LoadedModel
    runner: SequenceRunner
    progress: Progress

    def texts(self) -> list[TextScore]:
        return [self._text(index) for index in range(len(self.plan.texts))]

    def _text(self, index: int) -> TextScore:
        plan = self.plan
        cut = list(windows(plan.texts[index], plan.prefix, plan.context))
        step = -(-len(cut) // _SHOWN_PARTS)

        def on_window(done: int) -> None:
            if done % step == 0:
                self.progress(f"text {index + 1} of {len(plan.texts)}: {done / len(cut):.0%}")

        return score_text(self.runner, cut, on_window)

    def say_prompt(self, index: int) -> None:
        self.progress(f"prompt {index + 1} of {len(self.plan.prompts)}")


def reference(evaluation: Evaluation) -> EvaluationResult:
    """Score the texts, continue the prompts and keep the logits of the continuations."""
    texts = evaluation.texts()
    continuations = []
    for index, prompt in enumerate(evaluation.plan.prompts):
        evaluation.say_prompt(index)
        tokens: list[int] = []
        eos_token_ids = evaluation.model.runner.eos_token_ids
        rows = continue_greedily(evaluation.runner, prompt, eos_token_ids, tokens)
        evaluation.workspace.write_logits(index, rows)
        continuations.append(tokens)
    return EvaluationResult(_run_of(evaluation.model), texts, continuations=continuations)


def other(evaluation: Evaluation) -> EvaluationResult:
    """Score the texts, and compare with the reference's continuations."""
    texts = evaluation.texts()
    continuations = evaluation.workspace.read_result(REFERENCE).continuations
    agreements: list[Agreement] = []
    for index, prompt in enumerate(evaluation.plan.prompts):
        evaluation.say_prompt(index)
        vocab_size = evaluation.model.runner.vocab_size
        logits = evaluation.workspace.read_logits(index, vocab_size)
        agreements.append(compare(evaluation.runner, prompt, continuations[index], logits))
    return EvaluationResult(_run_of(evaluation.model), texts, agreements=agreements)


ROLES: dict[str, Callable[[Evaluation], EvaluationResult]] = {REFERENCE: reference, OTHER: other}


def evaluate(
    role: str,
    workspace: Workspace,
    plan: EvaluationPlan,
    model: LoadedModel,
    block_size: int,
    progress: Progress,
) -> None:
    """Carry out one side of the plan and leave its result in the workspace."""
    runner = SequenceRunner(model.runner, block_size, min(model.max_step_rows, _MAX_ROWS))
    evaluation = Evaluation(plan, workspace, model, runner, progress)
    workspace.write_result(role, ROLES[role](evaluation))


def _run_of(model: LoadedModel) -> ModelRun:
    return ModelRun(model.dtype, model.kernel_class, model.exactness, model.device)
