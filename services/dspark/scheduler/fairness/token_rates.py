"""How many prompt tokens and how many output tokens a second a verifier gets done under load."""

from __future__ import annotations

from dspark.scheduler.fairness.waiting_work import Work
from dspark.step import StepOutcome, StepPlan

# Each step fades those before it.
DECAY = 0.98


class TokenRates:
    """Decayed sums; a step's time belongs to prompts and to decoding by their rows."""

    def __init__(self) -> None:
        self._prompt_tokens = self._prompt_s = 0.0
        self._output_tokens = self._output_s = 0.0

    def observe(self, plan: StepPlan, outcome: StepOutcome, seconds: float) -> None:
        """Take in a step during which requests waited, for only then it is as full as can be."""
        nodes = sum(len(entry.tree.token_ids) for entry in plan.work)
        decodes = nodes + sum(entry.max_pending_rows == 1 for entry in plan.work)
        prompts = max(outcome.num_rows - decodes, 0)
        num_tokens = sum(len(result.committed_token_ids) for result in outcome.results)
        self.add(prompts, decodes, num_tokens, seconds)

    def add(self, prompt_rows: int, decode_rows: int, num_tokens: int, seconds: float) -> None:
        """A step of ``seconds`` that computed these rows and committed ``num_tokens``."""
        num_rows = prompt_rows + decode_rows
        if not num_rows or seconds <= 0:
            return
        prompt_s = seconds * prompt_rows / num_rows
        self._prompt_tokens = self._prompt_tokens * DECAY + prompt_rows
        self._prompt_s = self._prompt_s * DECAY + prompt_s
        if decode_rows:
            self._output_tokens = self._output_tokens * DECAY + num_tokens
            self._output_s = self._output_s * DECAY + seconds - prompt_s

    def seconds(self, work: Work) -> float:
        """Time for the work; what was not seen yet counts as nothing."""
        prompt_s = _per_token(self._prompt_s, self._prompt_tokens) * work.prompt
        return prompt_s + _per_token(self._output_s, self._output_tokens) * work.output


def _per_token(seconds: float, tokens: float) -> float:
    return seconds / tokens if tokens else 0.0
