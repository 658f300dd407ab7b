"""Verifier steps on the wire."""

from __future__ import annotations

from dspark.step import (
    SequenceAdmission,
    SequenceRef,
    SequenceWork,
    StepOutcome,
    StepPlan,
    VerifierInfo,
    VerifyCost,
    WorkResult,
    WorkStatus,
)
from dspark.v1 import verifier_service_pb2 as pb
from dspark.wire.features import features_from_proto, features_to_proto
from dspark.wire.kv_blocks import layout_from_proto, layout_to_proto
from dspark.wire.logprobs import logprobs_from_proto, logprobs_to_proto
from dspark.wire.sampling import (
    finish_reason_from_proto,
    finish_reason_to_proto,
    sampling_from_proto,
    sampling_to_proto,
)
from dspark.wire.token_tree import tree_from_proto, tree_to_proto


def plan_to_proto(plan: StepPlan) -> pb.StepRequest:
    return pb.StepRequest(
        scheduler_id=plan.scheduler_id,
        step_id=plan.step_id,
        releases=[pb.SequenceRef(request_id=r.request_id, epoch=r.epoch) for r in plan.releases],
        admissions=[_admission_to_proto(a) for a in plan.admissions],
        work=[_work_to_proto(w) for w in plan.work],
        top_k=plan.top_k,
        traceparents=plan.traceparents,
        compute_ahead=plan.compute_ahead,
        feature_layers=plan.feature_layers,
    )


def plan_from_proto(message: pb.StepRequest) -> StepPlan:
    return StepPlan(
        scheduler_id=message.scheduler_id,
        step_id=message.step_id,
        releases=tuple(SequenceRef(r.request_id, r.epoch) for r in message.releases),
        admissions=tuple(_admission_from_proto(a) for a in message.admissions),
        work=tuple(_work_from_proto(w) for w in message.work),
        top_k=message.top_k,
        traceparents=tuple(message.traceparents),
        compute_ahead=message.compute_ahead,
        feature_layers=tuple(message.feature_layers),
    )


def _admission_to_proto(admission: SequenceAdmission) -> pb.SequenceAdmission:
    return pb.SequenceAdmission(
        request_id=admission.request_id,
        epoch=admission.epoch,
        token_ids=admission.token_ids,
        num_prompt_tokens=admission.num_prompt_tokens,
        sampling=sampling_to_proto(admission.sampling),
        cache_salt=admission.cache_salt,
        use_prefix_cache=admission.use_prefix_cache,
    )


def _admission_from_proto(message: pb.SequenceAdmission) -> SequenceAdmission:
    return SequenceAdmission(
        request_id=message.request_id,
        epoch=message.epoch,
        token_ids=tuple(message.token_ids),
        num_prompt_tokens=message.num_prompt_tokens,
        sampling=sampling_from_proto(message.sampling),
        cache_salt=message.cache_salt,
        use_prefix_cache=message.use_prefix_cache,
    )


def _work_to_proto(work: SequenceWork) -> pb.SequenceWork:
    return pb.SequenceWork(
        request_id=work.request_id,
        epoch=work.epoch,
        base_len=work.base_len,
        max_pending_rows=work.max_pending_rows,
        tree=tree_to_proto(work.tree),
        num_features=work.num_features,
        max_forced_nodes=work.max_forced_nodes,
    )


def _work_from_proto(message: pb.SequenceWork) -> SequenceWork:
    return SequenceWork(
        request_id=message.request_id,
        epoch=message.epoch,
        base_len=message.base_len,
        max_pending_rows=message.max_pending_rows,
        tree=tree_from_proto(message.tree),
        num_features=message.num_features,
        max_forced_nodes=message.max_forced_nodes,
    )


def outcome_to_proto(outcome: StepOutcome) -> pb.StepResponse:
    return pb.StepResponse(
        step_id=outcome.step_id,
        admissions=[
            pb.AdmissionResult(request_id=request_id, num_cached_tokens=cached)
            for request_id, cached in outcome.cached_tokens.items()
        ],
        results=[_result_to_proto(r) for r in outcome.results],
        queue_ns=outcome.queue_ns,
        forward_ns=outcome.forward_ns,
        total_ns=outcome.total_ns,
        num_rows=outcome.num_rows,
        num_free_blocks=outcome.num_free_blocks,
        ahead_ns=outcome.ahead_ns,
        num_ahead_rows=outcome.num_ahead_rows,
        num_pruned_rows=outcome.num_pruned_rows,
        is_ending=outcome.is_ending,
    )


def outcome_from_proto(message: pb.StepResponse) -> StepOutcome:
    return StepOutcome(
        step_id=message.step_id,
        cached_tokens={a.request_id: a.num_cached_tokens for a in message.admissions},
        results=tuple(_result_from_proto(r) for r in message.results),
        queue_ns=message.queue_ns,
        forward_ns=message.forward_ns,
        total_ns=message.total_ns,
        num_rows=message.num_rows,
        num_free_blocks=message.num_free_blocks,
        ahead_ns=message.ahead_ns,
        num_ahead_rows=message.num_ahead_rows,
        num_pruned_rows=message.num_pruned_rows,
        is_ending=message.is_ending,
    )


def _result_to_proto(result: WorkResult) -> pb.WorkResult:
    return pb.WorkResult(
        request_id=result.request_id,
        epoch=result.epoch,
        status=f"WORK_STATUS_{result.status.name}",
        num_computed_tokens=result.num_computed_tokens,
        committed_token_ids=result.committed_token_ids,
        accepted_nodes=result.accepted_nodes,
        finish_reason=finish_reason_to_proto(result.finish_reason),
        stop_token_id=result.stop_token_id,
        row_token_ids=result.row_token_ids,
        top_token_ids=result.top_token_ids,
        known_epoch=result.known_epoch,
        features=None if result.features is None else features_to_proto(result.features),
        logprobs=logprobs_to_proto(result.logprobs),
        prompt_logprobs=logprobs_to_proto(result.prompt_logprobs),
        num_forced_nodes=result.num_forced_nodes,
        num_accepted_forced=result.num_accepted_forced,
        no_token_left=result.no_token_left,
    )


def _result_from_proto(message: pb.WorkResult) -> WorkResult:
    return WorkResult(
        request_id=message.request_id,
        epoch=message.epoch,
        status=WorkStatus(message.status),
        num_computed_tokens=message.num_computed_tokens,
        committed_token_ids=tuple(message.committed_token_ids),
        accepted_nodes=tuple(message.accepted_nodes),
        finish_reason=finish_reason_from_proto(message.finish_reason),
        stop_token_id=message.stop_token_id if message.HasField("stop_token_id") else None,
        row_token_ids=tuple(message.row_token_ids),
        top_token_ids=tuple(message.top_token_ids),
        known_epoch=message.known_epoch,
        features=features_from_proto(message.features),
        logprobs=logprobs_from_proto(message.logprobs),
        prompt_logprobs=logprobs_from_proto(message.prompt_logprobs),
        num_forced_nodes=message.num_forced_nodes,
        num_accepted_forced=message.num_accepted_forced,
        no_token_left=message.no_token_left,
    )


def verifier_info_to_proto(info: VerifierInfo) -> pb.GetVerifierInfoResponse:
    return pb.GetVerifierInfoResponse(
        model_id=info.model_id,
        model_digest=info.model_digest,
        vocab_size=info.vocab_size,
        max_model_len=info.max_model_len,
        eos_token_ids=sorted(info.eos_token_ids),
        block_size=info.block_size,
        num_blocks=info.num_blocks,
        max_step_rows=info.max_step_rows,
        exactness=info.exactness,
        kernel_class=info.kernel_class,
        dtype=info.dtype,
        device=info.device,
        verify_costs=[
            pb.VerifyCost(rows=rows, milliseconds=milliseconds, context=context)
            for rows, milliseconds, context in info.verify_costs
        ],
        computes_ahead=info.computes_ahead,
        feature_layers=info.feature_layers,
        hidden_size=info.hidden_size,
        instance_id=info.instance_id,
        is_ending=info.is_ending,
        kv_layout=None if info.kv_layout is None else layout_to_proto(info.kv_layout),
        can_structure=info.can_structure,
    )


def verifier_info_from_proto(message: pb.GetVerifierInfoResponse) -> VerifierInfo:
    return VerifierInfo(
        model_id=message.model_id,
        model_digest=message.model_digest,
        vocab_size=message.vocab_size,
        max_model_len=message.max_model_len,
        eos_token_ids=frozenset(message.eos_token_ids),
        block_size=message.block_size,
        num_blocks=message.num_blocks,
        max_step_rows=message.max_step_rows,
        exactness=message.exactness,
        kernel_class=message.kernel_class,
        dtype=message.dtype,
        device=message.device,
        verify_costs=tuple(
            VerifyCost(cost.rows, cost.milliseconds, cost.context) for cost in message.verify_costs
        ),
        computes_ahead=message.computes_ahead,
        feature_layers=tuple(message.feature_layers),
        hidden_size=message.hidden_size,
        instance_id=message.instance_id,
        is_ending=message.is_ending,
        kv_layout=layout_from_proto(message.kv_layout) if message.HasField("kv_layout") else None,
        can_structure=message.can_structure,
    )
