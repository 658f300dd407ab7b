"""How much a protobuf message holds, counted without parsing it (pure).

To parse megabytes of tiny fields takes tenths of a second, in which no other thread runs Python,
and to look at unknown ones takes seconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import cache

from google.protobuf.descriptor import Descriptor, ServiceDescriptor

from dspark.errors import InvalidArgument

FIELD = "request"
MAX_FIELDS = 20_000
_VARINT, _FIXED64, _LENGTH_DELIMITED, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
_SIZES = {_FIXED64: 8, _FIXED32: 4, _START_GROUP: 0, _END_GROUP: 0}
# A number's last byte is below them.
_CONTINUED = bytes(range(0x80, 0x100))


def check_counts(data: bytes, kind: Descriptor, max_values: int) -> None:
    """Raises InvalidArgument for more fields, or more numbers in its packed lists, than that.

    Fields are those of ``kind`` and of the messages inside, known and unknown. What is no message
    of its kind is left to the parser.
    """
    if len(data) <= min(MAX_FIELDS, max_values):
        return
    with contextlib.suppress(IndexError):
        _Counts(data, max_values).walk(kind)


def count_check(service: ServiceDescriptor, max_values: int) -> Callable[[str, bytes], None]:
    """Holds messages to a service's methods, by their paths, to these limits; others pass."""
    kinds = {f"/{service.full_name}/{each.name}": each.input_type for each in service.methods}

    def check(method: str, data: bytes) -> None:
        if (kind := kinds.get(method)) is not None:
            check_counts(data, kind, max_values)

    return check


class _Counts:
    """What was counted so far in one message."""

    def __init__(self, data: bytes, max_values: int) -> None:
        self._data = data
        self._max_values = max_values
        self._num_fields = self._num_values = 0

    def walk(self, kind: Descriptor) -> None:
        waiting = [(0, len(self._data), kind)]
        while waiting:
            at, end, kind = waiting.pop()
            inner = _inner(kind)
            while at < end:
                self._count_field()
                tag, at = self._varint(at)
                if tag & 7 == _LENGTH_DELIMITED:
                    size, at = self._varint(at)
                    if (message := inner.get(tag >> 3)) is not None:
                        waiting.append((at, at + size, message))
                    elif tag >> 3 in inner:
                        self._count_values(at, at + size)
                    at += size
                elif tag & 7 == _VARINT:
                    _, at = self._varint(at)
                else:
                    at += _SIZES.get(tag & 7, len(self._data))

    def _count_field(self) -> None:
        self._num_fields += 1
        if self._num_fields > MAX_FIELDS:
            raise InvalidArgument(FIELD, f"has more than {MAX_FIELDS} fields")

    def _count_values(self, start: int, end: int) -> None:
        self._num_values += len(self._data[start:end].translate(None, _CONTINUED))
        if self._num_values > self._max_values:
            raise InvalidArgument(FIELD, f"has more than {self._max_values} token ids")

    def _varint(self, at: int) -> tuple[int, int]:
        """The number and where it ends; raises IndexError where there is none."""
        value = 0
        for shift in range(0, 64, 7):
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte <= 0x7F:
                return value, at
        raise IndexError("no number has so many bytes")


@cache
def _inner(kind: Descriptor) -> Mapping[int, Descriptor | None]:
    """By field number: the kind of messages, None for packed lists; nothing for other fields."""
    return {
        field.number: field.message_type
        for field in kind.fields
        if field.message_type is not None or field.is_packed
    }
