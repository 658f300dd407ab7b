"""Decides whether small passes are replayed from recordings, and proves that they are the same."""

from __future__ import annotations

import logging

import torch

from dspark.verifier.attention.backend import StaticBackend
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.attention_trial import problem_with
from dspark.verifier.model.graph_recorder import CudaGraphRecorder, GraphRecorder
from dspark.verifier.model.graphed_model import GraphedModel
from dspark.verifier.model.self_test import RowInvarianceTest
from dspark.verifier.model.stock_model import StockModel
from dspark.verifier.model.target_model import TargetModel

log = logging.getLogger(__name__)


def recorder_for(device: torch.device, wanted: bool) -> GraphRecorder | None:
    """None where passes are not recorded."""
    return CudaGraphRecorder(device) if wanted and device.type == "cuda" else None


def with_recordings(
    model: TargetModel,
    kv_cache: KvCache,
    recorder: GraphRecorder,
    *,
    max_len: int,
    is_strict: bool,
) -> TargetModel:
    """The model with recorded small passes, or the model itself and one log line that says why.

    Sequences have up to ``max_len`` tokens. In strict mode a replayed row must have the bits of a
    computed one.
    """
    if not isinstance(model, StockModel) or not isinstance(model.backend, StaticBackend):
        log.info("passes are not recorded: their attention has no fixed shapes")
        return model
    graphed = GraphedModel(model, model.backend, kv_cache)
    problem = _problem(graphed, model, kv_cache, recorder, max_len, is_strict)
    if problem:
        log.warning("passes are not recorded, which makes small ones slower: %s", problem)
        return model
    sizes = ", ".join(str(recording.num_rows) for recording in graphed.recordings)
    log.info("passes are recorded for %s rows", sizes)
    return graphed


def _problem(
    graphed: GraphedModel,
    model: StockModel,
    kv_cache: KvCache,
    recorder: GraphRecorder,
    max_len: int,
    is_strict: bool,
) -> str | None:
    max_blocks = -(-min(max_len, kv_cache.num_slots) // kv_cache.block_size)
    try:
        graphed.record(recorder, max_blocks)
    # Drivers raise what they like.
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
    problem = problem_with(graphed, model, kv_cache, is_exact=is_strict)
    if problem or not is_strict:
        return problem
    test = RowInvarianceTest(
        lambda batch: graphed.forward(batch, kv_cache),
        graphed.vocab_size,
        kv_cache.num_slots,
        kv_cache.block_size,
    )
    return ", ".join(test.failures()) or None
