"""Which requests sit a step out, so that a calm tenant's prompt is soon computed (pure).

Where rows cost time each, every step of a prompt takes as long as the rows of all that decode
beside it, and a tenant that floods makes another wait for its own. Computing the prompt first costs
its streams nothing in all: they get the same rows a little later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dspark.scheduler.fairness.giving_way import ROUNDS_AHEAD
from dspark.scheduler.fairness.prompt_budget import PromptBudget

# Of those that may sit out this part takes part all the same, so that none of them stands still.
LEAST_PART = 8


@dataclass(frozen=True, slots=True)
class Runner:
    """A running request as far as this goes by it.

    ``num_prompt_rows`` is what is left of its prompt, 0 if it decodes or may not hurry: it is long,
    or of the class batch. ``num_sat_out`` counts the steps since it last took part; ``round`` is
    the lower, the less its tenant used. One that ``is_new`` has to be in the step that tells the
    verifier of it.
    """

    tenant: str
    round: int = 0
    num_prompt_rows: int = 0
    num_sat_out: int = 0
    is_new: bool = False


class Away(NamedTuple):
    """Indices of requests that leave out the next step."""

    decoding: list[int]
    prompts: list[int]


def sitting_out(
    decoding: Sequence[Runner], prompts: Sequence[Runner], budget: PromptBudget
) -> Away:
    """Who leaves out the next step.

    They are of tenants that have more than an equal part of all that run, while one that has less
    than half of that, and did not use much more lately, has a prompt to be computed. So many of
    those that decode take part as make the step a quarter longer, those first that sat out longest.
    Prompts do where the others leave them rows.
    """
    running = Counter(runner.tenant for runner in (*decoding, *prompts))
    part = running.total() / max(len(running), 1)
    hurried = [p for p in prompts if p.num_prompt_rows and running[p.tenant] < part / 2]
    if not hurried:
        return Away([], [])
    least_round = min(prompt.round for prompt in hurried) - ROUNDS_AHEAD

    def crowd(runners: Sequence[Runner]) -> list[int]:
        return [
            index
            for index, runner in enumerate(runners)
            if running[runner.tenant] > part and runner.round >= least_round
        ]

    num_hurried = sum(prompt.num_prompt_rows for prompt in hurried)
    waiting = crowd(prompts) if num_hurried >= budget.num_rows else []
    decodes = crowd(decoding)
    num_rows = len(decoding) - len(decodes) + min(num_hurried, budget.num_rows)
    num_kept = max(budget.beside(num_rows), -(-len(decodes) // LEAST_PART))
    decodes.sort(key=lambda index: -decoding[index].num_sat_out)
    return Away(sorted(decodes[num_kept:]), [i for i in waiting if not prompts[i].is_new])
