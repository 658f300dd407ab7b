"""How the prompts of a step share its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dspark.scheduler.online_costs import OnlineCosts
from dspark.step import VerifyCost

# Part of the rows that is the first prompt's, so that short ones cannot hold it up for ever.
FIRST_PART = 8
# However slow the verifier is, prompts get on.
MIN_ROWS = 16


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Tokens of a prompt that are left; prompts of a smaller rank go first."""

    rows: int
    rank: tuple[int, int]
    tenant: str


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


def rows_within(costs: Sequence[VerifyCost], limit_ms: float, most: int) -> int:
    """The largest number of rows, up to ``most``, whose pass takes no longer than the limit.

    A limit of 0 is none, and without measured costs there is nothing to go by.
    """
    measured = OnlineCosts.measured(costs)
    if not limit_ms or measured is None:
        return most
    table = measured.at(0)
    low, high = min(MIN_ROWS, most), most
    while low < high:
        middle = (low + high + 1) // 2
        if table.ms(middle) <= limit_ms:
            low = middle
        else:
            high = middle - 1
    return low
