"""Both sides of an evaluation, on models without weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from dspark.sampling import SamplingParams
from dspark.verifier.evaluation.log_probabilities import kl_divergence, log_softmax
from dspark.verifier.evaluation.plan import EvaluationPlan, PromptWork
from dspark.verifier.evaluation.results import EvaluationResult
from dspark.verifier.evaluation.roles import OTHER, REFERENCE, evaluate
from dspark.verifier.evaluation.workspace import Workspace
from dspark.verifier.interfaces import LoadedModel
from harness.fake_model import FakeModel
from harness.verifier_engine import plain_decode
from harness.verifier_service import fake_config, fake_loader

TEXT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]
PROMPTS = ([1], [2, 7, 1, 8, 2, 8], list(range(11)))
BLOCK_SIZE = 4


class DamagedModel(FakeModel):
    """The fake model with noise, as large as its logits, on one row in five."""

    def logits_of(self, digest: int) -> np.ndarray:  # type: ignore[type-arg]
        logits = super().logits_of(digest)
        noise = np.random.default_rng(digest).random(self.vocab_size) * self.spread
        return logits + noise.astype(np.float32) if digest % 5 == 0 else logits


def plan_of(context: int = 6, max_tokens: int = 13, prefix: tuple[int, ...] = ()) -> EvaluationPlan:
    prompts = [PromptWork(prompt, max_tokens) for prompt in PROMPTS]
    return EvaluationPlan([TEXT, TEXT[:2]], prefix, context, prompts)


def loaded(model: FakeModel, eos_token_ids: frozenset[int] = frozenset()) -> LoadedModel:
    """The model with so few rows a pass that texts and prompts take several."""
    load = fake_loader(model, eos_token_ids=eos_token_ids)
    fake = load(fake_config(block_size=BLOCK_SIZE), lambda line: None)
    return dataclasses.replace(fake, max_step_rows=4)


def run(
    folder: Path, role: str, model: LoadedModel, plan: EvaluationPlan | None = None
) -> EvaluationResult:
    workspace = Workspace(folder)
    workspace.write_plan(plan or plan_of())
    evaluate(role, workspace, workspace.read_plan(), model, BLOCK_SIZE, lambda line: None)
    return workspace.read_result(role)


def test_continuations_are_those_of_plain_decoding(tmp_path: Path) -> None:
    model = FakeModel()
    eos = frozenset({5})
    result = run(tmp_path, REFERENCE, loaded(model, eos))
    greedy = SamplingParams(temperature=0.0, max_tokens=13)
    assert result.continuations == [
        plain_decode(model, prompt, greedy, eos_token_ids=eos)[0] for prompt in PROMPTS
    ]
    assert {len(each) for each in result.continuations} != {13}, "no prompt ends early"


def test_the_logits_kept_are_those_of_each_position(tmp_path: Path) -> None:
    model = FakeModel()
    result = run(tmp_path, REFERENCE, loaded(model))
    for index, (prompt, tokens) in enumerate(zip(PROMPTS, result.continuations, strict=True)):
        kept = Workspace(tmp_path).read_logits(index, model.vocab_size)
        expected = [model.next_logits([*prompt, *tokens[:i]]) for i in range(len(tokens))]
        np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize("prefix", [(), (12,)])
@pytest.mark.parametrize("context", [4, 9, 64])
def test_texts_are_scored_window_by_window(
    context: int, prefix: tuple[int, ...], tmp_path: Path
) -> None:
    model = FakeModel()
    score, _ = run(tmp_path, REFERENCE, loaded(model), plan_of(context, prefix=prefix)).texts
    room = context - len(prefix) - 1
    expected, position = 0.0, 0 if prefix else 1
    while position < len(TEXT):
        begin = max(position - 1, 0)
        end = position + room + (position == 0)
        for at in range(position, min(end, len(TEXT))):
            logits = model.next_logits([*prefix, *TEXT[begin:at]])
            expected += log_softmax(logits[None])[0, TEXT[at]]
        position = end
    assert score.num_tokens == len(TEXT) - (not prefix)
    assert score.log_probability == pytest.approx(expected)


def test_a_model_agrees_with_itself(tmp_path: Path) -> None:
    reference = run(tmp_path, REFERENCE, loaded(FakeModel()))
    other = run(tmp_path, OTHER, loaded(FakeModel()))
    assert other.texts == reference.texts
    for each in other.agreements:
        assert (each.num_tokens, each.num_same_top, each.common_prefix) == (13, 13, 13)
        assert each.kl_sum == pytest.approx(0, abs=1e-9)


def test_a_damaged_model_differs_where_and_as_much_as_it_should(tmp_path: Path) -> None:
    model, damaged = FakeModel(), DamagedModel()
    reference = run(tmp_path, REFERENCE, loaded(model))
    other = run(tmp_path, OTHER, loaded(damaged))
    assert other.texts != reference.texts
    greedy = SamplingParams(temperature=0.0, max_tokens=13)
    for prompt, tokens, found in zip(
        PROMPTS, reference.continuations, other.agreements, strict=True
    ):
        pasts = [[*prompt, *tokens[:i]] for i in range(13)]
        expected = np.array([model.next_logits(past) for past in pasts])
        actual = np.array([damaged.next_logits(past) for past in pasts])
        assert found.num_same_top == (actual.argmax(axis=1) == tokens).sum()
        assert found.kl_sum == pytest.approx(kl_divergence(expected, actual).sum())
        free_running, _ = plain_decode(damaged, prompt, greedy)
        common = [a == b for a, b in zip(free_running, tokens, strict=True)]
        assert found.common_prefix == (common.index(False) if False in common else 13)
    assert sum(found.num_same_top for found in other.agreements) < 3 * 13


def test_progress_is_said_for_texts_and_prompts(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    lines: list[str] = []
    evaluate(REFERENCE, workspace, plan_of(), loaded(FakeModel()), BLOCK_SIZE, lines.append)
    assert lines[0] == "text 1 of 2: 25%"
    assert "text 2 of 2: 100%" in lines
    assert lines[-3:] == [f"prompt {index} of 3" for index in (1, 2, 3)]
