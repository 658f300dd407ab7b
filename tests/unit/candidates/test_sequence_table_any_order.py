"""Messages that are lost, repeated, late or out of order leave no wrong text, and none for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sequence_table import SequenceTable
from dspark.proposal import ProposeItem, SequenceEnd, SequenceUpdate

LEASE_S = 10.0
TEXT = tuple(range(100, 130))
NUM_EPOCHS = 3
Message = SequenceUpdate | SequenceEnd


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """All that a scheduler says of one request: it grows, ends, and begins anew with its tokens."""
    said: list[Message] = []
    length = draw(st.integers(1, 5))
    for epoch in range(NUM_EPOCHS):
        sent = 0
        for _ in range(draw(st.integers(0, 4))):
            said.append(SequenceUpdate("r", epoch, sent, TEXT[sent:length], num_prompt_tokens=1))
            sent, length = length, min(len(TEXT), length + draw(st.integers(0, 3)))
        said.append(SequenceEnd("r", epoch, completed=epoch == NUM_EPOCHS - 1))
    return said


@st.composite
def deliveries(draw: st.DrawFn) -> list[Message]:
    """A history with messages lost, repeated and moved."""
    said = draw(histories())
    places = st.lists(st.integers(0, len(said) - 1), max_size=2 * len(said))
    return [said[place] for place in draw(places)]


class Listener:
    """What a source is told of; it must be texts, each growing from its beginning to one end."""

    def __init__(self) -> None:
        self.texts: dict[int, list[int]] = {}

    def on_commit(self, sequence: LiveSequence, token_ids: tuple[int, ...]) -> None:
        self.texts.setdefault(id(sequence), []).extend(token_ids)
        assert self.texts[id(sequence)] == sequence.token_ids

    def on_release(self, sequence: LiveSequence, completed: bool) -> None:
        del self.texts[id(sequence)]


def said_of(table: SequenceTable, message: Message) -> None:
    if isinstance(message, SequenceEnd):
        table.end(message)
    else:
        table.apply(message)


@given(deliveries())
def test_what_is_known_is_the_text_and_an_end_that_came_first_is_remembered(
    messages: list[Message],
) -> None:
    listener, now = Listener(), 0.0
    table = SequenceTable(
        listener.on_commit,
        listener.on_release,
        lease_s=LEASE_S,
        max_sequences=3,
        clock=lambda: now,
    )
    # the last epoch that ended before anything of it was known
    buried = -1
    for message in messages:
        before = table.get("r")
        said_of(table, message)
        known = table.get("r")
        if isinstance(message, SequenceEnd):
            assert known is None or known.epoch > message.epoch
            if before is None or before.epoch < message.epoch:
                buried = max(buried, message.epoch)
        if known is not None:
            assert tuple(known.token_ids) == TEXT[: len(known)]
            assert known.epoch > buried, "a request lives although its end was told before"
            for base_len in range(len(TEXT) + 1):
                item = ProposeItem("r", known.epoch, base_len, 1, 1)
                assert (table.find(item) is known) is (base_len == len(known))
        assert len(listener.texts) == len(table)
    now = LEASE_S + 1
    table.reclaim()
    assert len(table) == 0 and not listener.texts
