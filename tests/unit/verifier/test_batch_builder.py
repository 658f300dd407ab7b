"""The rows of a batch, written out."""

from __future__ import annotations

from dspark.sampling import SamplingParams
from dspark.step import SequenceAdmission, SequenceWork
from dspark.token_tree import TokenTree
from dspark.verifier.admission import Limits, new_sequence
from dspark.verifier.batch_builder import build_batch
from dspark.verifier.scheduled_work import ScheduledWork
from harness.fake_model import visible_slots
from harness.scripted_drafters import tree_of

LIMITS = Limits(100, 64, 64, frozenset())


def entry(tokens: tuple[int, ...], blocks: list[int], start: int, tree: TokenTree) -> ScheduledWork:
    admission = SequenceAdmission("r", 0, tokens, 1, SamplingParams(max_tokens=50))
    sequence = new_sequence(admission, LIMITS, 4)
    sequence.table.append(blocks)
    work = SequenceWork("r", 0, len(tokens), 100, tree)
    scheduled = ScheduledWork(sequence, work, start, len(tokens))
    scheduled.set_tree(tree, max_nodes=100)
    return scheduled


def test_a_chunk_and_a_tree_side_by_side() -> None:
    chunk = entry((10, 11, 12, 13, 14), [7, 2], 2, TokenTree())
    chunk.end = 4
    # Anchor 22; nodes: 30 -> 31, 32 -> 33 (a child of the first).
    decode = entry((20, 21, 22), [5, 1], 2, tree_of([30, 31, 32, 33], [0, 1, 0, 1]))
    batch = build_batch([chunk, decode])
    assert batch.token_ids.tolist() == [12, 13, 22, 30, 31, 32, 33]
    assert batch.positions.tolist() == [2, 3, 2, 3, 4, 3, 4]
    assert batch.slot_mapping.tolist() == [30, 31, 22, 23, 4, 5, 6]
    assert batch.logits_rows.tolist() == [2, 3, 4, 5, 6]
    assert batch.sequence_ids.tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert batch.block_tables.tolist() == [[7, 2], [5, 1]]
    assert [visible_slots(batch, row).tolist() for row in range(7)] == [
        [28, 29, 30],
        [28, 29, 30, 31],
        [20, 21, 22],
        [20, 21, 22, 23],
        [20, 21, 22, 23, 4],
        [20, 21, 22, 5],
        [20, 21, 22, 23, 6],
    ]


def test_the_tails_of_a_chain_overlap() -> None:
    decode = entry((20, 21, 22), [5, 1], 2, tree_of([30, 31, 32], [0, 1, 2]))
    batch = build_batch([decode])
    assert batch.tail_slots.tolist() == [23, 4, 5]
    assert batch.tail_starts.tolist() == [0, 0, 0, 0]
    assert batch.tail_lens.tolist() == [0, 1, 2, 3]
