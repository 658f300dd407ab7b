"""Text, token ids and counts all end at the same token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dspark.gateway.detokenizer import IncrementalDetokenizer
from dspark.gateway.text_assembly import TextAssembler, TextChunk
from dspark.generation import TokenChunk
from dspark.logprobs import TokenLogprobs
from harness.byte_tokenizer import EOS, byte_tokenizer
from harness.fake_scheduler import runs_of

PIECES = [b"one ST", b"OP two", b"STOP", b" ha", b"P!\xe2"]
TOKENIZER = byte_tokenizer(PIECES)
END = TOKENIZER.token_to_id(EOS)


def _piece(piece: bytes) -> int:
    return 256 + PIECES.index(piece)


def _assembler(stops: Sequence[str] = (), ends: Sequence[int] = (END,)) -> TextAssembler:
    return TextAssembler(IncrementalDetokenizer(TOKENIZER.decode, {END}), set(ends), stops)


def _run(
    assembler: TextAssembler, runs: Sequence[Sequence[int]]
) -> tuple[str, list[int], list[TextChunk]]:
    chunks: list[TextChunk] = []
    for run in runs:
        chunks.append(assembler.push(TokenChunk(tuple(run), len(run) - 1)))
        if assembler.stop_string is not None:
            break
    else:
        chunks.append(TextChunk(assembler.finish()))
    ids = [i for chunk in chunks for i in chunk.token_ids]
    return "".join(chunk.text for chunk in chunks), ids, chunks


@pytest.mark.parametrize("size", range(1, 12))
def test_a_stop_string_in_runs_of_any_size_ends_at_its_last_token(size: int) -> None:
    assembler = _assembler(["STOP"])
    text, ids, _ = _run(assembler, runs_of("one STOP two three", size))
    assert (text, assembler.stop_string) == ("one ", "STOP")
    assert bytes(ids) == b"one STOP"
    assert assembler.num_tokens == len(ids)


def test_a_stop_string_across_tokens_ends_with_the_token_that_completes_it() -> None:
    assembler = _assembler(["STOP"])
    run = [_piece(b"one ST"), _piece(b"OP two"), *b"more"]
    text, ids, chunks = _run(assembler, [run])
    assert text == "one "
    assert ids == run[:2]
    assert chunks[0].num_accepted == 2


def test_accepted_tokens_after_the_stop_do_not_count() -> None:
    assembler = _assembler([" ha"])
    _, ids, chunks = _run(assembler, [[_piece(b" ha")] * 5])
    assert (len(ids), chunks[0].num_accepted) == (1, 1)


def test_a_stop_string_before_an_incomplete_character_is_seen_at_its_token() -> None:
    assembler = _assembler(["STOP"])
    _, ids, _ = _run(assembler, [[*b"STO", _piece(b"P!\xe2"), 0x82, 0xAC]])
    assert ids == [*b"STO", _piece(b"P!\xe2")]


def test_the_earliest_of_several_stops_wins_in_one_run() -> None:
    assembler = _assembler(["three", "two", "never"])
    text, ids, _ = _run(assembler, runs_of("one two three", 13))
    assert (text, assembler.stop_string) == ("one ", "two")
    assert bytes(ids) == b"one two"


def test_a_stop_string_before_an_end_token_in_the_same_run_wins() -> None:
    assembler = _assembler(["STOP"])
    text, ids, _ = _run(assembler, [[*b"a STOP", END]])
    assert (text, ids) == ("a ", list(b"a STOP"))


def test_the_end_token_is_no_text_but_a_token() -> None:
    text, ids, _ = _run(_assembler(ends=[END, ord("!")]), [list(b"done"), list(b".!")])
    assert (text, bytes(ids)) == ("done.", b"done.!")


def test_text_held_for_a_stop_string_comes_out_at_the_end() -> None:
    assembler = _assembler(["STOP"])
    text, _, chunks = _run(assembler, runs_of("wait STO"))
    assert text == "wait STO"
    assert chunks[-1].text == "STO"


def test_a_truncated_character_may_complete_a_stop_string() -> None:
    assembler = _assembler(["x\ufffd"])
    assembler.push(TokenChunk((ord("x"), 0xE2)))
    assert assembler.finish() == ""
    assert assembler.stop_string == "x\ufffd"


@pytest.mark.parametrize("size", range(1, 12))
def test_a_stop_string_can_stay_in_the_text(size: int) -> None:
    decoder = IncrementalDetokenizer(TOKENIZER.decode, {END})
    assembler = TextAssembler(decoder, {END}, ["STOP", "OP"], include_stop=True)
    text, ids, _ = _run(assembler, runs_of("one STOP two three", size))
    assert (text, assembler.stop_string) == ("one STOP", "STOP")
    assert bytes(ids) == b"one STOP"


def test_a_stop_token_can_stay_in_the_text() -> None:
    run = [[*b"one!"]]
    for include_stop, expected in ((False, "one"), (True, "one!")):
        decoder = IncrementalDetokenizer(TOKENIZER.decode, {END})
        assembler = TextAssembler(decoder, {ord("!")}, include_stop=include_stop)
        assert _run(assembler, run)[0] == expected


@pytest.mark.parametrize("size", range(1, 12))
def test_a_stop_string_among_the_first_tokens_is_text(size: int) -> None:
    assembler = TextAssembler(
        IncrementalDetokenizer(TOKENIZER.decode, {END}), {END}, ["STOP"], min_tokens=8
    )
    text, ids, _ = _run(assembler, runs_of("one STOP two STOP three", size))
    assert (text, assembler.stop_string) == ("one STOP two ", "STOP")
    assert bytes(ids) == b"one STOP two STOP"


def test_a_stop_string_may_begin_among_the_first_tokens() -> None:
    assembler = TextAssembler(
        IncrementalDetokenizer(TOKENIZER.decode, {END}), {END}, ["STOP"], min_tokens=7
    )
    text, ids, _ = _run(assembler, runs_of("one STOP two", 3))
    assert (text, bytes(ids)) == ("one ", b"one STOP")


@pytest.mark.parametrize("size", [1, 2, 5, 20])
@pytest.mark.parametrize("stops", [(), ("STOP",)])
def test_logprobs_are_cut_as_the_ids_are(size: int, stops: tuple[str, ...]) -> None:
    data = "é € STOP and more".encode()
    assembler = _assembler(stops)
    chunks: list[TextChunk] = []
    for run in runs_of(data, size):
        told = tuple(TokenLogprobs(-token / 8, 1) for token in run)
        chunks.append(assembler.push(TokenChunk(tuple(run), logprobs=told)))
        if assembler.stop_string is not None:
            break
    ids = [i for chunk in chunks for i in chunk.token_ids]
    assert bytes(ids) == ("é € STOP".encode() if stops else data)
    assert [-8 * told.logprob for chunk in chunks for told in chunk.logprobs] == ids
    offsets = [offset for chunk in chunks for offset in chunk.offsets]
    # Each token begins where the whole characters before it end.
    assert offsets == [len(data[:place].decode(errors="ignore")) for place in range(len(ids))]
