"""``python -m dspark.health ADDRESS [SERVICE]``: asks a service for its health, for probes.

Exit codes: 0 SERVING, 1 anything else, 2 bad usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_FAILED = 1


def health_of(address: str, service: str, timeout_s: float) -> str:
    """The status by name, such as SERVING; else why there is none. No proxy is asked."""
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(address, options=options) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = stub.Check(request, timeout=timeout_s)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="python -m dspark.health",
        description="Asks a gRPC service for its health.",
    )
    parser.add_argument("address", help="host:port, dns:///host:port or unix:/path")
    parser.add_argument(
        "service", nargs="?", default="", help="full name of the service; none: is it alive"
    )
    parser.add_argument("--timeout-s", type=float, default=3.0, help="longest wait for an answer")
    arguments = parser.parse_args(argv)
    status = health_of(arguments.address, arguments.service, arguments.timeout_s)
    print(status)
    return 0 if status == "SERVING" else _FAILED


if __name__ == "__main__":
    sys.exit(main())
