"""What the decision log is told of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dspark.scheduler.decision_log import LoggedStep, Offer, nodes_of, priced_rows
from dspark.scheduler.outcomes import Outcome
from dspark.scheduler.policy.interface import Budget, ScoredTree, StepContext
from dspark.scheduler.request import Request
from dspark.scheduler.temperature_bin import temperature_bin
from dspark.scheduler.wishes import Wish
from dspark.token_tree import TokenTree


def plain_step(context: StepContext, price: float) -> LoggedStep:
    """A step that asked nobody."""
    return LoggedStep(
        context.num_rows,
        context.num_committing,
        context.max_nodes,
        context.overhead_ms,
        context.propose_ms,
        price,
        priced_rows(context),
        (),
        context.num_decoding,
        round(context.decoding_ms, 4),
        context.prompts_wait,
    )


def asked_step(
    context: StepContext,
    price: float,
    asked: Mapping[Request, tuple[Wish, Budget]],
    decided: Mapping[Request, tuple[ScoredTree, TokenTree]],
    outcomes: Mapping[Request, Outcome],
) -> tuple[LoggedStep, dict[int, Outcome]]:
    """The step, and by index of its offers the outcomes that are still open.

    ``decided`` has what requests were offered and what was bought of it.
    """
    offers: list[Offer] = []
    still_open: dict[int, Outcome] = {}
    for request, (wish, budget) in asked.items():
        view = wish.view
        offer = Offer(
            request.request_id,
            view.max_nodes,
            view.propose_ms,
            budget.max_nodes,
            temperature_bin=temperature_bin(request.spec.sampling),
        )
        if request in decided:
            offer = _with_tree(offer, *decided[request])
        if request in outcomes:
            still_open[len(offers)] = outcomes[request]
        offers.append(offer)
    return replace(plain_step(context, price), offers=tuple(offers)), still_open


def _with_tree(offer: Offer, scored: ScoredTree, bought: TokenTree) -> Offer:
    tree = scored.tree
    return replace(
        offer,
        parents=tree.parents,
        scores=tree.scores,
        survivals=tuple(scored.survivals),
        masks=tree.source_masks,
        sources=tree.source_names,
        bought=nodes_of(bought, tree),
    )
