"""What a client gets of any tokens does not depend on the runs in which candidates bring them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from dspark.gateway.detokenizer import IncrementalDetokenizer
from dspark.gateway.text_assembly import TextAssembler, TextChunk
from dspark.generation import TokenChunk
from dspark.logprobs import TokenLogprobs
from harness.byte_tokenizer import EOS, byte_tokenizer

PIECES = [b"ab", b"ba", b"aab", b"b\xe2", b"\x82\xac", b"\xacab", b"\xff", b"\xf0\x9f", b"a\xc3"]
TOKENIZER = byte_tokenizer([piece for piece in PIECES if len(piece) > 1])
END = TOKENIZER.token_to_id(EOS)
LETTERS = [ord("a"), ord("b"), 0xE2, 0x82, 0xAC, *range(256, END)]
TOKENS = st.lists(st.sampled_from(LETTERS), max_size=40)
STOPS = st.lists(st.text(alphabet="ab€", min_size=1, max_size=5), max_size=3)


def assembler_of(stops: Sequence[str], min_tokens: int, include_stop: bool) -> TextAssembler:
    decoder = IncrementalDetokenizer(TOKENIZER.decode, {END})
    return TextAssembler(decoder, {END}, stops, min_tokens, include_stop=include_stop)


def assemble(
    assembler: TextAssembler, token_ids: Sequence[int], cuts: Sequence[int], *, told: bool
) -> TextChunk:
    """All that was streamed, put together."""
    marks = sorted({0, len(token_ids), *(cut % (len(token_ids) + 1) for cut in cuts)})
    whole = TextChunk("")
    for start, end in pairwise(marks):
        run = tuple(token_ids[start:end])
        logprobs = tuple(TokenLogprobs(-float(i), 1) for i in range(start, end)) if told else ()
        whole = whole.joined(assembler.push(TokenChunk(run, 0, logprobs=logprobs)))
        if assembler.is_over:
            return whole
    return whole.joined(assembler.last_chunk())


def plainly(
    token_ids: Sequence[int], stops: Sequence[str], min_tokens: int, include_stop: bool
) -> tuple[str, int, str | None]:
    """Text, number of tokens and stop string: the rule over whole decodings, token by token."""
    for count in range(1, len(token_ids) + 1):
        is_last = count == len(token_ids)
        certain = TOKENIZER.decode(list(token_ids[:count]))
        if not is_last:
            certain = certain.rstrip("\ufffd")
        before = TOKENIZER.decode(list(token_ids[: count - 1])).rstrip("\ufffd")
        for end in range(len(before) + 1, len(certain) + 1) if count > min_tokens else ():
            hits = [stop for stop in stops if certain[:end].endswith(stop)]
            if hits:
                stop = max(hits, key=len)
                return certain[: end if include_stop else end - len(stop)], count, stop
    return TOKENIZER.decode(list(token_ids)), len(token_ids), None


@given(
    TOKENS,
    st.booleans(),
    STOPS,
    st.integers(0, 12),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 100), max_size=10),
)
@example([*b"a" * 20, LETTERS[8]], False, [], 0, False, False, [])
@example([*b"ab\xe2\x82\xac"], True, ["b€"], 0, False, True, [2])
def test_text_tokens_and_logprobs_end_alike_at_any_split(
    token_ids: list[int],
    has_end: bool,
    stops: list[str],
    min_tokens: int,
    include_stop: bool,
    told: bool,
    cuts: list[int],
) -> None:
    text, num_tokens, stop = plainly(token_ids, stops, min_tokens, include_stop)
    given_ids = [*token_ids, END] if has_end else token_ids
    if has_end and stop is None:
        num_tokens += 1
    assembler = assembler_of(stops, min_tokens, include_stop)
    whole = assemble(assembler, given_ids, cuts, told=told)
    assert (whole.text, assembler.stop_string) == (text, stop)
    assert list(whole.token_ids) == given_ids[:num_tokens]
    assert assembler.num_tokens == num_tokens
    if told:
        assert [-entry.logprob for entry in whole.logprobs] == list(range(num_tokens))
        assert len(whole.offsets) == num_tokens
        assert list(whole.offsets) == sorted(whole.offsets)
