"""Updates to and proposals from candidates on the wire."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.proposal import (
    CandidatesInfo,
    CandidatesUpdate,
    DraftProposal,
    ProposeItem,
    ProposeOutcome,
    SequenceEnd,
    SequenceFeatures,
    SequenceUpdate,
    SourceRate,
    Successors,
)
from dspark.v1 import candidates_service_pb2 as pb
from dspark.wire.features import features_from_proto, features_to_proto
from dspark.wire.token_tree import tree_from_proto, tree_to_proto


def info_to_proto(info: CandidatesInfo) -> pb.GetCandidatesInfoResponse:
    return pb.GetCandidatesInfoResponse(
        sources=info.sources,
        top_k=info.top_k,
        source_rates=[
            pb.SourceRate(
                name=rate.name,
                milliseconds_per_request=rate.ms_per_request,
                milliseconds_per_node=rate.ms_per_node,
            )
            for rate in info.rates
        ],
        feature_layers=info.feature_layers,
        num_features=info.num_features,
        feature_sources=info.feature_sources,
    )


def info_from_proto(message: pb.GetCandidatesInfoResponse) -> CandidatesInfo:
    return CandidatesInfo(
        sources=tuple(message.sources),
        top_k=message.top_k,
        rates=tuple(
            SourceRate(rate.name, rate.milliseconds_per_request, rate.milliseconds_per_node)
            for rate in message.source_rates
        ),
        feature_layers=tuple(message.feature_layers),
        num_features=message.num_features,
        feature_sources=tuple(message.feature_sources),
    )


def update_to_proto(update: CandidatesUpdate) -> pb.CandidatesUpdate:
    return pb.CandidatesUpdate(
        sequences=[
            pb.SequenceUpdate(
                request_id=s.request_id,
                epoch=s.epoch,
                base_len=s.base_len,
                token_ids=s.token_ids,
                num_prompt_tokens=s.num_prompt_tokens,
                cache_salt=s.cache_salt,
                temperature=s.temperature,
                seed=s.seed,
            )
            for s in update.sequences
        ],
        features=[
            pb.SequenceFeatures(
                request_id=f.request_id, epoch=f.epoch, features=features_to_proto(f.features)
            )
            for f in update.features
        ],
        successors=[
            pb.Successors(
                row_token_ids=s.row_token_ids,
                top_token_ids=s.top_token_ids,
                cache_salt=s.cache_salt,
            )
            for s in update.successors
        ],
        releases=[
            pb.SequenceEnd(request_id=r.request_id, epoch=r.epoch, completed=r.completed)
            for r in update.releases
        ],
    )


def update_from_proto(message: pb.CandidatesUpdate) -> CandidatesUpdate:
    return CandidatesUpdate(
        sequences=tuple(
            SequenceUpdate(
                request_id=s.request_id,
                epoch=s.epoch,
                base_len=s.base_len,
                token_ids=tuple(s.token_ids),
                num_prompt_tokens=s.num_prompt_tokens,
                cache_salt=s.cache_salt,
                temperature=s.temperature,
                seed=s.seed,
            )
            for s in message.sequences
        ),
        features=tuple(
            SequenceFeatures(f.request_id, f.epoch, features)
            for f in message.features
            if (features := features_from_proto(f.features)) is not None
        ),
        successors=tuple(
            Successors(tuple(s.row_token_ids), tuple(s.top_token_ids), s.cache_salt)
            for s in message.successors
        ),
        releases=tuple(SequenceEnd(r.request_id, r.epoch, r.completed) for r in message.releases),
    )


def items_to_proto(items: Sequence[ProposeItem]) -> list[pb.ProposeItem]:
    return [
        pb.ProposeItem(
            request_id=item.request_id,
            epoch=item.epoch,
            base_len=item.base_len,
            max_nodes=item.max_nodes,
            max_depth=item.max_depth,
            sources=item.sources,
            min_survival=item.min_survival,
            price=item.price,
        )
        for item in items
    ]


def items_from_proto(messages: Sequence[pb.ProposeItem]) -> tuple[ProposeItem, ...]:
    return tuple(
        ProposeItem(
            request_id=item.request_id,
            epoch=item.epoch,
            base_len=item.base_len,
            max_nodes=item.max_nodes,
            max_depth=item.max_depth,
            sources=tuple(item.sources),
            min_survival=item.min_survival,
            price=item.price,
        )
        for item in messages
    )


def outcome_to_proto(outcome: ProposeOutcome) -> pb.ProposeResponse:
    return pb.ProposeResponse(
        proposals=[
            pb.Proposal(
                request_id=p.request_id,
                epoch=p.epoch,
                base_len=p.base_len,
                tree=tree_to_proto(p.tree),
            )
            for p in outcome.proposals
        ],
        unknown_request_ids=outcome.unknown_request_ids,
        source_costs=[
            pb.SourceCost(name=name, nanoseconds=cost)
            for name, cost in outcome.source_costs_ns.items()
        ],
    )


def outcome_from_proto(message: pb.ProposeResponse) -> ProposeOutcome:
    return ProposeOutcome(
        proposals=tuple(
            DraftProposal(p.request_id, p.epoch, p.base_len, tree_from_proto(p.tree))
            for p in message.proposals
        ),
        unknown_request_ids=tuple(message.unknown_request_ids),
        source_costs_ns={cost.name: cost.nanoseconds for cost in message.source_costs},
    )
