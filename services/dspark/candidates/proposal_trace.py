"""The span of a Propose call, in the trace of each sampled request."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.proposal import ProposeOutcome
from dspark.telemetry.batched_call import record_call
from dspark.telemetry.span import AttributeValue

SCOPE = "dspark.candidates"


def trace_proposals(
    traceparents: Sequence[str], start_ns: int, end_ns: int, outcome: ProposeOutcome
) -> None:
    """Record the call; the times of sources are over all requests of it."""
    attributes: dict[str, AttributeValue] = {
        "dspark.propose.trees": len(outcome.proposals),
        "dspark.propose.nodes": sum(len(proposal.tree) for proposal in outcome.proposals),
        "dspark.propose.unknown_requests": len(outcome.unknown_request_ids),
    }
    for name, cost_ns in outcome.source_costs_ns.items():
        attributes[f"dspark.source.{name}.ms"] = cost_ns / 1e6
    record_call(SCOPE, "propose", traceparents, start_ns, end_ns, attributes)
