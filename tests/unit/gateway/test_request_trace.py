"""The span of a client's request belongs to that request alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import copy_context

import pytest

from dspark.gateway.request_trace import CHAT, current_trace, note_failure, traced
from dspark.telemetry import tracing
from dspark.telemetry.recorder import Recorder, Sampled
from dspark.telemetry.span import Span


def test_a_request_that_is_not_sampled_says_nothing_in_the_span_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans: list[Span] = []
    decisions: Iterator[bool] = iter((True, False))
    recorder = Recorder(
        lambda carrier, name: Sampled(next(decisions), 7, 0, ""), spans.append, False
    )
    monkeypatch.setattr(tracing, "_recorder", recorder)

    def serve_both() -> None:
        with traced(CHAT, "m", {}):
            assert current_trace() is not None
        # A pipelined request runs in what the one before it left.
        with traced(CHAT, "m", {}):
            assert current_trace() is None
            note_failure(RuntimeError("of the second"))

    # As in a connection's task, so that what is left ends with it.
    copy_context().run(serve_both)
    (span,) = spans
    assert "error.type" not in span.attributes
