"""How the prompts of a step share its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dspark.scheduler.fairness.prompt_budget import PromptBudget

# Part of the rows that is the first prompt's, so that short ones cannot hold it up for ever.
FIRST_PART = 8


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Tokens of a prompt that are left; prompts of a smaller rank go first.

    A long prompt leaves most of each step to whoever else runs.
    """

    rows: int
    rank: tuple[int, int]
    tenant: str
    is_long: bool = False


def share_rows(total: int, prompts: Sequence[WantedRows]) -> list[int]:
    """Rows for each of the prompts, of which there are at most ``total``.

    Each gets one, and the first of them an eighth of all. Of the rest, prompts of one rank share
    evenly between tenants, and of a tenant the shortest is served first: it is soon done, and a
    long one loses little by it.
    """
    shares = [min(prompt.rows, 1) for prompt in prompts]
    left = total - sum(shares)
    left -= _give(shares, 0, prompts, min(left, total // FIRST_PART - 1))
    for rank in sorted({prompt.rank for prompt in prompts}):
        of_tenant: defaultdict[str, list[int]] = defaultdict(list)
        for index, prompt in enumerate(prompts):
            if prompt.rank == rank:
                of_tenant[prompt.tenant].append(index)
        groups = list(of_tenant.values())
        wanted = [sum(prompts[i].rows - shares[i] for i in group) for group in groups]
        for group, rows in zip(groups, share_evenly(left, wanted), strict=True):
            left -= rows
            for index in sorted(group, key=lambda each: prompts[each].rows):
                rows -= _give(shares, index, prompts, rows)
    return shares


def prompt_rows(
    total: int, prompts: Sequence[WantedRows], num_decodes: int, budget: PromptBudget
) -> list[int]:
    """Rows for each of the prompts of a step with ``total`` of them to give.

    Where the step completes some, the others get what does not make those wait much longer. Long
    ones always do, since decoding requests would feel them for many steps.
    """
    shares = share_rows(max(min(total, budget.num_rows), len(prompts)), prompts)
    rest = [i for i, prompt in enumerate(prompts) if shares[i] < prompt.rows]
    num_others = (
        num_decodes + sum(prompt.rows for prompt in prompts) - sum(prompts[i].rows for i in rest)
    )
    are_long = all(prompts[i].is_long for i in rest)
    if not rest or not (are_long or len(rest) < len(prompts)):
        return shares
    most = budget.beside(num_others) if num_others else budget.num_long_rows
    if most < sum(shares[i] for i in rest):
        fewer = share_rows(max(most, len(rest)), [prompts[i] for i in rest])
        for index, rows in zip(rest, fewer, strict=True):
            shares[index] = rows
    return shares


def _give(shares: list[int], index: int, prompts: Sequence[WantedRows], rows: int) -> int:
    """Give up to so many rows to a prompt; returns how many it took."""
    if not prompts:
        return 0
    taken = max(0, min(rows, prompts[index].rows - shares[index]))
    shares[index] += taken
    return taken


def share_evenly(total: int, wanted: Sequence[int]) -> list[int]:
    """Split ``total`` so that small wishes are met in full and large ones get equal parts.

    >>> share_evenly(100, [500, 10, 500])
    [45, 10, 45]
    """
    shares = [0] * len(wanted)
    left = total
    smallest_first = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for position, index in enumerate(smallest_first):
        shares[index] = min(wanted[index], left // (len(wanted) - position))
        left -= shares[index]
    return shares


def num_unfinished(total: int, wanted: Sequence[int]) -> int:
    """How many of these prompts so many rows cannot complete, the shortest being served first."""
    for position, rows in enumerate(sorted(wanted)):
        total -= rows
        if total < 0:
            return len(wanted) - position
    return 0
