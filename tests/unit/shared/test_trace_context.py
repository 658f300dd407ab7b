"""The W3C traceparent."""

from __future__ import annotations

import pytest

from dspark.telemetry.span import SpanIds
from dspark.telemetry.trace_context import from_traceparent, to_traceparent

IDS = SpanIds(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_ids_survive() -> None:
    assert to_traceparent(IDS) == TEXT
    assert to_traceparent(IDS, is_sampled=False) == TEXT[:-1] + "0"
    assert from_traceparent(TEXT) == IDS
    assert from_traceparent(to_traceparent(SpanIds(1, 2))) == SpanIds(1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        TEXT[:-1],
        TEXT.replace("00-", "ff-", 1),
        TEXT.upper(),
        TEXT.replace("-", "_"),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        TEXT.replace("a", " "),
    ],
)
def test_anything_else_is_no_span(text: str) -> None:
    assert from_traceparent(text) is None
