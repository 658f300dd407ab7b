"""Times the verifier's forward pass by number of rows.

    python tests/bench/step_profile.py --model DIR --rows 1,8,16,32 --contexts 128,1024

``tree``: one sequence whose pass has the anchor and a chain of nodes. ``decode``: one row each of
as many sequences. Contexts hold zeros; only the time is of interest.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dspark.config import SettingError, add_arguments, from_namespace
from dspark.verifier.config import VerifierConfig
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import ModelRunner
from dspark.verifier.model.loader import load_model

BLOCK_SIZE = 16


def tree_batch(rows: int, context: int) -> ForwardBatch:
    """The anchor at the end of ``context`` tokens, and a chain of ``rows - 1`` nodes."""
    nodes = np.arange(rows, dtype=np.int32)
    return ForwardBatch(
        token_ids=np.ones(rows, dtype=np.int64),
        positions=context - 1 + nodes.astype(np.int64),
        slot_mapping=context - 1 + nodes,
        prefix_slots=np.arange(context, dtype=np.int32),
        prefix_starts=np.zeros(rows, dtype=np.int32),
        prefix_lens=np.full(rows, context, dtype=np.int32),
        tail_slots=np.arange(context, context + rows - 1, dtype=np.int32),
        tail_starts=np.zeros(rows, dtype=np.int32),
        tail_lens=nodes,
        sequence_ids=np.zeros(rows, dtype=np.int32),
        block_tables=np.arange(-(-(context + rows) // BLOCK_SIZE), dtype=np.int32)[None],
        logits_rows=np.arange(rows, dtype=np.int64),
    )


def decode_batch(rows: int, context: int) -> ForwardBatch:
    """The last row of each of ``rows`` sequences of ``context`` tokens."""
    blocks = -(-context // BLOCK_SIZE)
    sequences = np.arange(rows, dtype=np.int32)
    block_tables = sequences[:, None] * blocks + np.arange(blocks, dtype=np.int32)
    first_slots = sequences * blocks * BLOCK_SIZE
    slots = (first_slots[:, None] + np.arange(context)).astype(np.int32)
    return ForwardBatch(
        token_ids=np.ones(rows, dtype=np.int64),
        positions=np.full(rows, context - 1, dtype=np.int64),
        slot_mapping=slots[:, -1].copy(),
        prefix_slots=slots.reshape(-1),
        prefix_starts=sequences * context,
        prefix_lens=np.full(rows, context, dtype=np.int32),
        tail_slots=np.zeros(0, dtype=np.int32),
        tail_starts=np.zeros(rows, dtype=np.int32),
        tail_lens=np.zeros(rows, dtype=np.int32),
        sequence_ids=sequences,
        block_tables=block_tables.astype(np.int32),
        logits_rows=np.arange(rows, dtype=np.int64),
    )


SHAPES: dict[str, Callable[[int, int], ForwardBatch]] = {
    "tree": tree_batch,
    "decode": decode_batch,
}


def milliseconds(runner: ModelRunner, batch: ForwardBatch, repeats: int) -> list[float]:
    """Times of ``repeats`` passes after two that are not counted."""
    times = []
    for index in range(repeats + 2):
        started = time.perf_counter()
        runner.forward(batch)
        if index >= 2:
            times.append((time.perf_counter() - started) * 1e3)
    return times


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="time the verifier's forward pass by rows")
    parser.add_argument("--rows", type=numbers, default=[1, 2, 4, 8, 12, 16, 24, 32, 48, 64])
    parser.add_argument("--contexts", type=numbers, default=[128, 1024])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the times here")
    add_arguments(parser.add_argument_group("verifier"), VerifierConfig)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    try:
        config = from_namespace(VerifierConfig, options)
    except SettingError as error:
        raise SystemExit(f"error: {error}") from error
    needed = max(options.rows) * (max(options.contexts) + BLOCK_SIZE + max(options.rows))
    config = dataclasses.replace(
        config, block_size=BLOCK_SIZE, kv_tokens=max(config.kv_tokens, needed)
    )
    loaded = load_model(config, lambda line: print(line, file=sys.stderr))
    print(f"{loaded.kernel_class} {loaded.dtype} {loaded.device} {loaded.exactness}")
    print(f"{'shape':8}{'context':>9}{'rows':>6}{'p50 ms':>9}{'p90 ms':>9}{'ms/row':>9}")
    found = []
    for shape, make_batch in SHAPES.items():
        for context in options.contexts:
            for rows in options.rows:
                times = milliseconds(loaded.runner, make_batch(rows, context), options.repeats)
                p50 = statistics.median(times)
                p90 = statistics.quantiles(times, n=10)[-1] if len(times) > 1 else p50
                print(f"{shape:8}{context:9}{rows:6}{p50:9.2f}{p90:9.2f}{p50 / rows:9.2f}")
                found.append(
                    {"shape": shape, "context": context, "rows": rows, "p50": p50, "p90": p90}
                )
    if options.json:
        options.json.write_text(json.dumps({"kernel_class": loaded.kernel_class, "ms": found}))


if __name__ == "__main__":
    main()
