"""Errors of services as google.rpc.Status, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc import aio
from grpc_status import rpc_status

from dspark import errors

DOMAIN = "dspark"
# How gRPC itself refuses a message that is too large to be read at all.
_TOO_LARGE = "larger than max"
_BY_REASON = {
    cls.reason: cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, errors.DSparkError)
}


def to_status(error: errors.DSparkError) -> status_pb2.Status:
    """The error as google.rpc.Status with ErrorInfo, and RetryInfo if it says when to retry."""
    status = status_pb2.Status(code=code_pb2.Code.Value(error.code), message=error.message)
    status.details.add().Pack(
        error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    )
    if error.retry_after_s is not None:
        retry_info = error_details_pb2.RetryInfo()
        retry_info.retry_delay.FromSeconds(error.retry_after_s)
        status.details.add().Pack(retry_info)
    return status


def from_rpc_error(error: aio.AioRpcError, service: str) -> errors.DSparkError:
    """The DSparkError ``service`` raised, or BackendUnavailable when the call itself failed."""
    status = rpc_status.from_call(cast(grpc.Call, error))
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in _BY_REASON:
            rebuilt = _rebuilt(_BY_REASON[info.reason], status.message, dict(info.metadata))
            if (seconds := _retry_after_s(status)) is not None:
                rebuilt.retry_in(seconds)
            return _as_seen_by_callers(rebuilt, service)
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in (error.details() or ""):
        return _rebuilt(errors.MessageTooLarge, f"the message is larger than {service} takes", {})
    return errors.BackendUnavailable(service, f"{error.code().name}: {error.details()}")


def _retry_after_s(status: status_pb2.Status) -> int | None:
    for detail in status.details:
        retry_info = error_details_pb2.RetryInfo()
        if detail.Unpack(retry_info):
            return int(retry_info.retry_delay.ToSeconds())
    return None


def _rebuilt(
    kind: type[errors.DSparkError], message: str, metadata: dict[str, str]
) -> errors.DSparkError:
    # Each class has a signature of its own; over the wire come the message and the metadata.
    error = kind.__new__(kind)
    errors.DSparkError.__init__(error, message, metadata)
    return error


def _as_seen_by_callers(error: errors.DSparkError, service: str) -> errors.DSparkError:
    # It is the deployment that is wrong, not the request: another worker may still take it.
    if isinstance(error, errors.PermissionDenied):
        return errors.BackendUnavailable(service, f"{error.code}: {error.message}")
    return error


@contextmanager
def errors_of(service: str) -> Iterator[None]:
    """Around a call: its failure is raised as ``from_rpc_error`` says."""
    try:
        yield
    except aio.AioRpcError as error:
        raise from_rpc_error(error, service) from error


async def abort(context: aio.ServicerContext[Any, Any], error: errors.DSparkError) -> NoReturn:
    """End the call with the error's status."""
    status = rpc_status.to_status(to_status(error))
    await context.abort(status.code, status.details, status.trailing_metadata)
    raise AssertionError("abort returns never")
