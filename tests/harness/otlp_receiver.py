"""An OTLP receiver of traces over the wire: gRPC and HTTP on free ports, spans kept for a look."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it came; ids are hex, an empty parent is a root."""

    service: str
    scope: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: tuple[str, ...]
    events: tuple[str, ...]
    error: str | None
    resource: dict[str, Any]


@dataclass
class OtlpReceiver:
    """What has arrived so far, and where to send to."""

    grpc_port: int = 0
    http_port: int = 0
    spans: list[ReceivedSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def grpc_endpoint(self) -> str:
        return f"http://127.0.0.1:{self.grpc_port}"

    @property
    def http_endpoint(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def accept(self, request: pb.ExportTraceServiceRequest) -> None:
        self.spans += list(spans_of(request))

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.trace_id == trace_id]

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Spans come in batches, some time after they ended."""
        give_up_at = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < give_up_at, [(s.scope, s.name) for s in self.spans]
            time.sleep(0.05)


def spans_of(request: pb.ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield ReceivedSpan(
                    service=resource.get("service.name", ""),
                    scope=of_scope.scope.name,
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    kind=span.kind,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes=_attributes(span.attributes),
                    links=tuple(link.span_id.hex() for link in span.links),
                    events=tuple(event.name for event in span.events),
                    error=span.status.message if span.status.code == 2 else None,
                    resource=resource,
                )


def _attributes(entries: Any) -> dict[str, Any]:
    return {entry.key: _value(entry.value) for entry in entries}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


class _Service(pb_grpc.TraceServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(
        self, request: pb.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> pb.ExportTraceServiceResponse:
        self._receiver.headers.append(dict(context.invocation_metadata()))
        self._receiver.accept(request)
        return pb.ExportTraceServiceResponse()


def _handler(receiver: OtlpReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            is_known = self.path == "/v1/traces"
            if is_known:
                receiver.headers.append(dict(self.headers))
                receiver.accept(pb.ExportTraceServiceRequest.FromString(body))
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@contextmanager
def otlp_receiver(host: str = "127.0.0.1", grpc_port: int = 0) -> Iterator[OtlpReceiver]:
    """Listens while the block runs."""
    receiver = OtlpReceiver()
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    pb_grpc.add_TraceServiceServicer_to_server(_Service(receiver), server)
    receiver.grpc_port = server.add_insecure_port(f"{host}:{grpc_port}")
    web = ThreadingHTTPServer((host, 0), _handler(receiver))
    receiver.http_port = web.server_address[1]
    server.start()
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        web.shutdown()
        web.server_close()
        thread.join()
        server.stop(0).wait()
