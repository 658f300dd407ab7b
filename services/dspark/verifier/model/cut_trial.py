"""Tries a cut on the loaded model before any pass is pruned: rows that stay must not notice."""

from __future__ import annotations

import numpy as np

from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.probe_rows import ProbeRow, plain_rows, probe_batch
from dspark.verifier.model.self_test import Forward
from dspark.verifier.pruning.cut import Cut, CuttingRunner

_LENGTH = 6
# A tree by the parents of its nodes (0: the anchor), and the nodes of it that leave.
_PARENTS = (0, 0, 1, 2, 2, 3, 4, 5)
_LEAVING = (0, 2, 4, 5, 7)


def cut_problem(forward: Forward, cutting: CuttingRunner, kv_cache: KvCache) -> str | None:
    """What goes wrong when rows leave a pass, in words; None if nothing does.

    Slots start as NaN, so what reads a slot that nobody wrote shows. The first slots of the pool
    are cleared afterwards.
    """
    num_slots = _LENGTH + len(_PARENTS)
    if kv_cache.num_slots < num_slots:
        return f"a pool of {kv_cache.num_slots} slots is too small for the trial"
    prefix = tuple(range(_LENGTH))
    paths: list[tuple[int, ...]] = [()]
    for node, parent in enumerate(_PARENTS):
        paths.append((*paths[parent], _LENGTH + node))
    rows = plain_rows(range(1, _LENGTH + 1), prefix)
    rows += [ProbeRow(node % 7, prefix, path) for node, path in enumerate(paths[1:])]
    batch = probe_batch(rows, range(_LENGTH - 1, num_slots), kv_cache.block_size)
    kept = np.delete(np.arange(num_slots), [_LENGTH + node for node in _LEAVING])
    wanted = np.array(forward(batch))[kept[kept >= _LENGTH - 1] - (_LENGTH - 1)]
    asked = np.array([_LENGTH - 1], dtype=np.int64)
    try:
        for layer in {1, cutting.num_layers - 1}:
            kv_cache.slots[:, :, :num_slots] = float("nan")
            found = cutting.forward_cut(batch, Cut(layer, asked, asked, lambda logits: kept))
            if not np.array_equal(found, wanted):
                return f"rows that stay behind layer {layer} get other logits"
    except Exception as error:
        # A model's own code runs here; whatever it raises, passes can go on without cuts.
        return f"{type(error).__name__}: {error}"
    finally:
        kv_cache.clear(num_slots)
    return None
