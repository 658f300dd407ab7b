"""What a protobuf message holds is counted as a parser would find it."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from dspark.errors import InvalidArgument
from dspark.gateway.wire import message_counts
from dspark.gateway.wire.message_counts import check_counts
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import sampling_pb2
from harness.hostile_messages import MESSAGES, TOO_MUCH

Params = sampling_pb2.SamplingParams
# A message, its fields and the numbers in its packed lists.
COUNTED: list[tuple[Message, int, int]] = [
    (pb.GenerateRequest(), 0, 0),
    (pb.GenerateRequest(text="a" * 99, n=300, priority=-1, stop_strings=["", "x"]), 5, 0),
    (pb.GenerateRequest(token_ids=pb.TokenIds(ids=[1, 300, 2**32 - 1])), 2, 3),
    (pb.GenerateRequest(sampling=Params(temperature=0.5, seed=2**64 - 1, top_k=0)), 4, 0),
    (
        pb.GenerateRequest(
            sampling=Params(
                logit_bias=[{"token_id": 1, "bias": 2.0}, {"token_id": 2, "bias": -1.0}],
                bad_words=[{"token_ids": [1, 2]}, {"token_ids": [3]}],
            )
        ),
        1 + 2 * 3 + 2 * 2,
        3,
    ),
    (
        pb.GenerateRequest(
            chat=pb.ChatPrompt(messages=[pb.ChatMessage(role="user", content="x")] * 3)
        ),
        1 + 3 * 3,
        0,
    ),
]


@pytest.mark.parametrize(("message", "num_fields", "num_values"), COUNTED)
def test_the_limits_are_met_exactly(
    message: Message, num_fields: int, num_values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, kind = message.SerializeToString(), message.DESCRIPTOR
    monkeypatch.setattr(message_counts, "MAX_FIELDS", num_fields)
    check_counts(data, kind, num_values)
    if num_values:
        with pytest.raises(InvalidArgument, match=f"more than {num_values - 1} token ids"):
            check_counts(data, kind, num_values - 1)
    if num_fields:
        monkeypatch.setattr(message_counts, "MAX_FIELDS", num_fields - 1)
        with pytest.raises(InvalidArgument, match=f"more than {num_fields - 1} fields"):
            check_counts(data, kind, num_values)


HEAVY = [name for name, each in MESSAGES.items() if each.problem == TOO_MUCH]


@pytest.mark.parametrize("name", HEAVY)
def test_hostile_ones_are_refused_unparsed(name: str) -> None:
    hostile = MESSAGES[name]
    method = pb.DESCRIPTOR.services_by_name["InferenceService"].methods_by_name[hostile.method]
    with pytest.raises(InvalidArgument, match=TOO_MUCH):
        check_counts(hostile.message, method.input_type, 500_000)


@given(st.binary(max_size=200))
def test_what_is_no_message_is_left_to_the_parser(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_counts, "MAX_FIELDS", 10**6)
        for limit in (len(data), 10**6):
            check_counts(data, pb.GenerateRequest.DESCRIPTOR, limit)


def test_a_number_without_an_end_is_not_computed() -> None:
    for byte in (b"\xff", b"\x80"):
        check_counts(byte * 10**7, pb.GenerateRequest.DESCRIPTOR, 1)
