"""What the command line asks a scheduler."""

from __future__ import annotations

from dspark import rpc
from dspark.transport_security.tls_files import TlsFiles
from dspark.v1 import scheduler_service_pb2 as pb
from dspark.v1 import scheduler_service_pb2_grpc as pb_grpc

SCHEDULER = "scheduler"  # its name in errors, and in its certificate
TIMEOUT_S = 5.0


async def drain_worker(
    target: str, worker: str, tls: TlsFiles | None = None, *, resume: bool = False
) -> int:
    """Order that a verifier runs empty, or end that; returns how many requests it still has.

    Raises InvalidArgument for one that the scheduler does not know.
    """
    request = pb.DrainWorkerRequest(worker=worker, resume=resume)
    channel = rpc.channel(target, tls, SCHEDULER)
    try:
        with rpc.errors_of(SCHEDULER):
            stub = pb_grpc.SchedulerServiceStub(channel)
            reply = await stub.DrainWorker(request, timeout=TIMEOUT_S)
    finally:
        await channel.close(None)
    return int(reply.num_requests)
