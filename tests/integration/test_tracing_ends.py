"""Tracing from start to end of a process, with a receiver that is there and one that is not."""

from __future__ import annotations

import threading

import pytest

from dspark.telemetry import tracing
from dspark.telemetry.span import SpanKind
from harness.otlp_receiver import otlp_receiver
from harness.processes import wait_until
from harness.traced_stack import grpc_variables, traced_process

LATER = {"OTEL_BSP_SCHEDULE_DELAY": "600000"}


def record_spans(number: int) -> None:
    recorder = tracing.active()
    assert recorder is not None
    for _ in range(number):
        recorder.open("scope", "name", SpanKind.SERVER, {}).end()


def senders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("OtelBatch")]


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_what_waits_is_sent_at_the_end(protocol: str) -> None:
    with otlp_receiver() as receiver:
        endpoint = receiver.grpc_endpoint if protocol == "grpc" else receiver.http_endpoint
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            **LATER,
        }
        with traced_process(variables, "gateway"):
            record_spans(3)
            assert not receiver.spans
        assert len(receiver.spans) == 3
        assert {span.service for span in receiver.spans} == {"dspark-gateway"}
    assert tracing.active() is None
    assert not senders()


def test_a_receiver_that_is_gone_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with otlp_receiver() as gone:
        variables = grpc_variables(gone) | LATER
    with traced_process(variables):
        # More than the queue holds.
        record_spans(5000)
        assert len(senders()) == 1
        tracing.stop(flush_s=0.1)
    assert wait_until(lambda: not senders(), 30)
    lost = [r.getMessage() for r in caplog.records if "spans are lost" in r.getMessage()]
    assert len(lost) == 1
    assert str(gone.grpc_port) in lost[0]
    assert not [r for r in caplog.records if r.name.startswith("opentelemetry")]


def test_spans_that_do_not_fit_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    sizes = {"OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8"}
    with otlp_receiver() as receiver:
        with traced_process(grpc_variables(receiver) | LATER | sizes):
            record_spans(20)
        assert len(receiver.spans) == 7
    (line,) = (r.getMessage() for r in caplog.records if "dropped" in r.getMessage())
    assert line.startswith("13 spans")


def test_without_variables_nothing_starts() -> None:
    with traced_process({}):
        assert tracing.active() is None
        assert not senders()
