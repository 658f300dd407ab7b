"""Messages to dspark.v1.InferenceService that want to hurt, and the field that is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from google.protobuf.message import Message

from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import sampling_pb2

GENERATE, TOKENIZE, DETOKENIZE = "Generate", "Tokenize", "Detokenize"
TOO_MUCH = "request: has more than"
UNREADABLE = "request: cannot be parsed"
# The largest message that is read at all.
_MOST = 8 * 1024 * 1024 - 1024
_LENGTH_DELIMITED, _START_GROUP, _END_GROUP = 2, 3, 4
_UNKNOWN = 1000


class HostileMessage(NamedTuple):
    """What is sent where; what the INVALID_ARGUMENT says first."""

    method: str
    message: bytes
    problem: str


def _varint(value: int) -> bytes:
    coded = bytearray()
    while value > 0x7F:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    coded.append(value)
    return bytes(coded)


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _field(kind: type[Message], name: str, payload: bytes) -> bytes:
    number = kind.DESCRIPTOR.fields_by_name[name].number
    return _tag(number, _LENGTH_DELIMITED) + _varint(len(payload)) + payload


def _many(kind: type[Message], name: str, num_bytes: int = _MOST) -> bytes:
    """An empty value of the field, again and again."""
    one = _field(kind, name, b"")
    return one * (num_bytes // len(one))


def _generate(name: str, payload: bytes, problem: str = TOO_MUCH) -> HostileMessage:
    return HostileMessage(GENERATE, _field(pb.GenerateRequest, name, payload), problem)


def _sampling(payload: bytes) -> HostileMessage:
    return _generate("sampling", payload)


_ONES = b"\1" * (_MOST - 64)
_Structured = sampling_pb2.StructuredOutput
_CHOICES = _field(_Structured, "choice", _many(sampling_pb2.StructuredChoice, "texts"))
_CALLS = _field(pb.ChatPrompt, "messages", _many(pb.ChatMessage, "tool_calls"))
_GROUPS = _tag(_UNKNOWN, _START_GROUP) * 50 + _tag(_UNKNOWN, _END_GROUP) * 50

MESSAGES: Mapping[str, HostileMessage] = {
    "a million choices": HostileMessage(
        GENERATE, pb.GenerateRequest(text="hi", n=10**6).SerializeToString(), "n: "
    ),
    "a number that is none": HostileMessage(
        GENERATE,
        pb.GenerateRequest(
            text="hi", sampling=sampling_pb2.SamplingParams(temperature=float("nan"))
        ).SerializeToString(),
        "temperature",
    ),
    "bytes that are no message": HostileMessage(GENERATE, b"\xff" * _MOST, UNREADABLE),
    "bytes that are no text": _generate("text", b"\xff\xfe", UNREADABLE),
    "a prompt of millions of characters": _generate("text", b"x" * (_MOST - 64), "text: "),
    "a prompt of a million tokens": _generate(
        "token_ids", _field(pb.TokenIds, "ids", b"\1" * 10**6)
    ),
    "a prompt of many tokens": _generate(
        "token_ids", _field(pb.TokenIds, "ids", b"\1" * 400_000), "token_ids: "
    ),
    "as many tokens as fit": _generate("token_ids", _field(pb.TokenIds, "ids", _ONES)),
    "tokens one by one": _generate("token_ids", b"\x08\x01" * (_MOST // 2)),
    "as many stop strings as fit": HostileMessage(
        GENERATE, _many(pb.GenerateRequest, "stop_strings"), TOO_MUCH
    ),
    "a few thousand stop strings": HostileMessage(
        GENERATE,
        _field(pb.GenerateRequest, "text", b"hi")
        + _many(pb.GenerateRequest, "stop_strings", num_bytes=30_000),
        "stop: ",
    ),
    "as many bad words as fit": HostileMessage(
        GENERATE, _many(pb.GenerateRequest, "bad_words"), TOO_MUCH
    ),
    "as many messages as fit": _generate("chat", _many(pb.ChatPrompt, "messages")),
    "a few thousand messages": _generate(
        "chat", _many(pb.ChatPrompt, "messages", num_bytes=30_000), "chat.messages: has 15000 items"
    ),
    "as many tools as fit": _generate("chat", _many(pb.ChatPrompt, "tools")),
    "as many documents as fit": _generate("chat", _many(pb.ChatPrompt, "documents")),
    "as many calls as fit": _generate("chat", _CALLS),
    "as many biases as fit": _sampling(_many(sampling_pb2.SamplingParams, "logit_bias")),
    "as many token runs as fit": _sampling(_many(sampling_pb2.SamplingParams, "bad_words")),
    "as many stop tokens as fit": _sampling(
        _field(sampling_pb2.SamplingParams, "stop_token_ids", _ONES)
    ),
    "as many allowed tokens as fit": _sampling(
        _field(sampling_pb2.SamplingParams, "allowed_token_ids", _ONES)
    ),
    "as many choices of a text as fit": _sampling(
        _field(sampling_pb2.SamplingParams, "structured", _CHOICES)
    ),
    "as many sources as fit": _generate(
        "speculation", _many(sampling_pb2.SpeculationParams, "sources")
    ),
    "the same part again and again": HostileMessage(
        GENERATE, _many(pb.GenerateRequest, "sampling"), TOO_MUCH
    ),
    "as many unknown fields as fit": HostileMessage(
        GENERATE, (_tag(_UNKNOWN, 0) + b"\1") * (_MOST // 3), TOO_MUCH
    ),
    "as many unknown groups as fit": HostileMessage(
        GENERATE, _GROUPS * (_MOST // len(_GROUPS)), TOO_MUCH
    ),
    "unknown fields in a part": HostileMessage(
        GENERATE,
        _field(pb.GenerateRequest, "speculation", (_tag(_UNKNOWN, 0) + b"\1") * 5000),
        f"speculation.#{_UNKNOWN}: ",
    ),
    "as many tokens to decode as fit": HostileMessage(
        DETOKENIZE, _field(pb.DetokenizeRequest, "token_ids", _ONES), TOO_MUCH
    ),
    "as many messages to encode as fit": HostileMessage(
        TOKENIZE, _field(pb.TokenizeRequest, "chat", _many(pb.ChatPrompt, "messages")), TOO_MUCH
    ),
}
