"""Attention by torch's FlexAttention: KV blocks by lists, tree paths by a mask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.attention.flex_kernel import FlexKernel
from dspark.verifier.attention.flex_layout import PoolShape, layouts
from dspark.verifier.attention.flex_part import FlexPart, PartShape
from dspark.verifier.device.transfer import Transfer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache


@dataclass(slots=True)
class FlexPlan:
    """A pass; its parts are made when the pool is seen, with the first layer."""

    batch: ForwardBatch
    slot_mapping: torch.Tensor
    parts: list[FlexPart] | None = None


class FlexAttention:
    """Each row's sums run over its own blocks in position order, whatever else is in the pass.

    The pool's scratch blocks hold copies of tree paths while a layer runs. Values that are not
    finite are written as zero: the kernel multiplies by zero what a row does not see.
    """

    def __init__(self, kernel: FlexKernel, transfer: Transfer) -> None:
        self._kernel = kernel
        self._transfer = transfer
        self._prepared: KvCache | None = None

    def plan(self, batch: ForwardBatch) -> FlexPlan:
        (slot_mapping,) = self._transfer.to_device([batch.slot_mapping.astype(np.int64)])
        return FlexPlan(batch, slot_mapping)

    def static_plan(self, batch: ForwardBatch, kv_cache: KvCache, max_blocks: int) -> FlexPlan:
        """A plan whose tensors keep their places and sizes when it is refilled.

        ``batch`` has the number of rows of every later one; ``max_blocks`` is the longest list of
        blocks that a group of rows may read. Raises ValueError for a batch that does not fit.
        """
        shape = PartShape.of_rows(batch.num_rows, pool_shape(kv_cache), max_blocks)
        plan = self.plan(batch)
        (layout,) = layouts(batch, pool_shape(kv_cache))
        plan.parts = [FlexPart(layout, shape, self._transfer)]
        return plan

    def refill(self, plan: FlexPlan, batch: ForwardBatch, kv_cache: KvCache) -> bool:
        """Make a static plan stand for another batch; False, and nothing done, if it cannot."""
        assert plan.parts is not None
        (part,) = plan.parts
        found = list(layouts(batch, part.shape.pool))
        if len(found) > 1 or not part.refill(found[0]):
            return False
        (slots,) = self._transfer.to_device([batch.slot_mapping.astype(np.int64)])
        plan.slot_mapping.copy_(slots)
        return True

    def attend(
        self,
        plan: FlexPlan,
        layer: AttentionLayer,
        kv_cache: KvCache,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        self._prepare(kv_cache)
        finite = value.to(kv_cache.dtype).nan_to_num(0.0, 0.0, 0.0)
        kv_cache.write(layer.index, plan.slot_mapping, key, finite)
        if plan.parts is None:
            pool = pool_shape(kv_cache)
            plan.parts = [
                FlexPart(layout, PartShape.of_layout(layout, pool), self._transfer)
                for layout in layouts(plan.batch, pool)
            ]
        out = torch.empty_like(query)
        for part in plan.parts:
            rows = slice(part.rows.start, part.rows.stop)
            out[rows] = self._attend_part(part, layer, kv_cache, query[rows])
        return out

    def _attend_part(
        self, part: FlexPart, layer: AttentionLayer, kv_cache: KvCache, query: torch.Tensor
    ) -> torch.Tensor:
        keys, values = kv_cache.layer(layer.index)
        part.copy_paths(keys, values)
        view = part.view(layer.sliding_window)
        out = self._kernel(
            part.grouped(query.to(kv_cache.dtype)),
            keys,
            values,
            view.lists,
            view.mask,
            scale=layer.scaling,
            soft_cap=layer.soft_cap,
        )
        return part.flat(out).to(query.dtype)

    def _prepare(self, kv_cache: KvCache) -> None:
        """Values of slots that were never written may be anything, so they start as zeros."""
        if self._prepared is not kv_cache:
            self._prepared = kv_cache
            kv_cache.slots[:, 1].zero_()


def pool_shape(kv_cache: KvCache) -> PoolShape:
    return PoolShape(kv_cache.num_blocks, kv_cache.num_scratch_blocks, kv_cache.block_size)
