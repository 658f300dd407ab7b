"""From texts and prompts to an evaluation's plan, as token ids that fit the model."""

from __future__ import annotations

from pathlib import Path

from dspark.cli.evaluation.config import EvalConfig
from dspark.cli.evaluation.inputs import EvalInputs, EvalText
from dspark.cli.failure import CliError
from dspark.cli.models.model_config import config_number
from dspark.cli.models.model_tokenizer import ModelTokenizer
from dspark.verifier.evaluation.plan import EvaluationPlan, PromptWork

_USAGE = 2


def make_plan(inputs: EvalInputs, config: EvalConfig, directory: Path) -> EvaluationPlan:
    """Encode with special tokens parsed; raises CliError for what the model cannot take."""
    tokenizer = ModelTokenizer(directory)
    limit = config_number(directory, "max_position_embeddings")
    prefix = tokenizer.prefix()
    if inputs.texts:
        _check_context(config.context, prefix, limit)
    return EvaluationPlan(
        texts=[_text_ids(tokenizer, text) for text in inputs.texts],
        prefix=prefix,
        context=config.context,
        prompts=_prompts(tokenizer, inputs, config.max_tokens, limit),
    )


def _check_context(context: int, prefix: list[int], limit: int | None) -> None:
    least = len(prefix) + 2
    if context < least:
        raise CliError(f"--context must be at least {least} for this model", _USAGE)
    if limit and context > limit:
        problem = f"the model takes sequences of at most {limit} tokens"
        raise CliError(f"--context {context}: {problem}", _USAGE)


def _text_ids(tokenizer: ModelTokenizer, text: EvalText) -> list[int]:
    token_ids = tokenizer.encode(text.text)
    if len(token_ids) < 2:
        problem = "is a text of less than 2 tokens: there is nothing to predict"
        raise CliError(f"--text {text.path}: {problem}", _USAGE)
    return token_ids


def _prompts(
    tokenizer: ModelTokenizer, inputs: EvalInputs, max_tokens: int, limit: int | None
) -> list[PromptWork]:
    """Each prompt with the tokens that its continuation may have within the model's positions."""
    works = []
    for index, prompt in enumerate(inputs.prompts):
        token_ids = tokenizer.encode(prompt.prompt)
        what = f"--prompts {inputs.prompts_path}: entry {index}"
        if not token_ids:
            raise CliError(f"{what} is empty", _USAGE)
        room = limit - len(token_ids) if limit else max_tokens
        if room < 1:
            problem = f"has {len(token_ids)} tokens; the model takes {limit} with the continuation"
            raise CliError(f"{what} {problem}", _USAGE)
        works.append(PromptWork(token_ids, min(max_tokens, room)))
    return works
