"""Every error that crosses a service boundary.

DSparkError
├── InvalidArgument        INVALID_ARGUMENT     400  a field can never be served
│   ├── UnsupportedField   INVALID_ARGUMENT     400  a field is not honoured here
│   └── ContextLength      INVALID_ARGUMENT     400  prompt and max_tokens do not fit
├── ModelNotFound          NOT_FOUND            404
├── UnknownRequest         NOT_FOUND            404  no state for the request: send it whole
├── StaleStep              FAILED_PRECONDITION  409  step id older than the last one answered
├── DuplicateRequest       ALREADY_EXISTS       409
├── QueueFull              RESOURCE_EXHAUSTED   429  too many wait, or too many of this tenant
├── RateLimited            RESOURCE_EXHAUSTED   429  the caller's API key runs or used enough
├── Overloaded             RESOURCE_EXHAUSTED   529  the wait would be longer than allowed
├── NotReady               UNAVAILABLE          503  starting
│   └── Draining           UNAVAILABLE          503  shutting down
├── BackendUnavailable     UNAVAILABLE          503  the service behind does not answer
├── DeadlineExceeded       DEADLINE_EXCEEDED    504  the caller's deadline passed
├── BodyTimeout            DEADLINE_EXCEEDED    408  the request's body did not come in time
├── Unauthenticated        UNAUTHENTICATED      401  no valid API key
├── PermissionDenied       PERMISSION_DENIED    403  the caller is known and may not do this
├── MessageTooLarge        RESOURCE_EXHAUSTED   413  the request is over a limit in bytes
└── InternalError          INTERNAL             500  a bug

``dspark.rpc`` maps them to and from ``google.rpc.Status``, the gateway ``http_status`` to HTTP.
"""

from __future__ import annotations

from typing import ClassVar, Self


class DSparkError(Exception):
    """Base: ``reason`` is the ErrorReason's name, ``code`` the gRPC status's."""

    reason: ClassVar[str] = "INTERNAL"
    code: ClassVar[str] = "INTERNAL"
    http_status: ClassVar[int] = 500
    # When to try again, from now; sent as google.rpc.RetryInfo. An error may know better.
    retry_after_s: int | None = None

    def __init__(self, message: str, metadata: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = metadata or {}

    def retry_in(self, seconds: int) -> Self:
        """The same error, which says when to try again."""
        self.retry_after_s = seconds
        return self

    def for_strangers(self) -> DSparkError:
        """The error without what only those who run the services may know."""
        return self


class InvalidArgument(DSparkError):
    """A field has a value that can never be served."""

    reason = "INVALID_ARGUMENT"
    code = "INVALID_ARGUMENT"
    http_status = 400

    def __init__(self, field: str, problem: str, **metadata: str) -> None:
        super().__init__(f"{field}: {problem}", {"field": field, **metadata})

    @property
    def field(self) -> str:
        """Name of the field, also when the error came over the wire."""
        return self.metadata.get("field", "")

    @property
    def problem(self) -> str:
        """The message without the name of the field."""
        return self.message.removeprefix(f"{self.field}: ")

    def renamed(self, field: str) -> Self:
        """The same error, with the name that its reader has for the field."""
        self.message = f"{field}: {self.problem}"
        self.args = (self.message,)
        self.metadata["field"] = field
        return self


class UnsupportedField(InvalidArgument):
    """A field is known elsewhere but not honoured here."""

    reason = "UNSUPPORTED_FIELD"

    def __init__(self, field: str, problem: str = "is not supported by this server") -> None:
        super().__init__(field, problem)


class ContextLength(InvalidArgument):
    """Prompt and max_tokens do not fit the model or the KV pool."""

    reason = "CONTEXT_LENGTH"

    def __init__(self, field: str, problem: str, *, limit: int, given: int) -> None:
        super().__init__(field, problem, limit=str(limit), given=str(given))


class ModelNotFound(DSparkError):
    """The named model is not served here."""

    reason = "MODEL_NOT_FOUND"
    code = "NOT_FOUND"
    http_status = 404

    def __init__(self, model: str, served: str) -> None:
        super().__init__(f"the model {model!r} is not served here; {served!r} is", {"model": model})


class UnknownRequest(DSparkError):
    """The service holds no state for the request."""

    reason = "UNKNOWN_REQUEST"
    code = "NOT_FOUND"
    http_status = 404

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request {request_id!r} is unknown here", {"request_id": request_id})


class StaleStep(DSparkError):
    """The step id is older than the last one answered."""

    reason = "STALE_STEP"
    code = "FAILED_PRECONDITION"
    http_status = 409

    def __init__(self, step_id: int, last: int) -> None:
        super().__init__(f"step {step_id} is older than step {last}", {"step_id": str(step_id)})


class DuplicateRequest(DSparkError):
    """A request with this id is live."""

    reason = "DUPLICATE_REQUEST"
    code = "ALREADY_EXISTS"
    http_status = 409

    def __init__(self, request_id: str) -> None:
        super().__init__(f"request {request_id!r} is already running", {"request_id": request_id})


class QueueFull(DSparkError):
    """Too many requests wait, or too many of the caller's tenant."""

    reason = "QUEUE_FULL"
    code = "RESOURCE_EXHAUSTED"
    http_status = 429
    retry_after_s = 1


class RateLimited(DSparkError):
    """The caller's API key runs, or has used, as much as it may; ``limit`` names which."""

    reason = "RATE_LIMITED"
    code = "RESOURCE_EXHAUSTED"
    http_status = 429
    retry_after_s = 1

    def __init__(self, limit: str, problem: str) -> None:
        super().__init__(problem, {"limit": limit})


class Overloaded(DSparkError):
    """The request would wait longer than requests of its class may, whoever had sent it."""

    reason = "OVERLOADED"
    code = "RESOURCE_EXHAUSTED"
    http_status = 529
    retry_after_s = 1


class NotReady(DSparkError):
    """The service is starting."""

    reason = "NOT_READY"
    code = "UNAVAILABLE"
    http_status = 503


class Draining(NotReady):
    """The service is shutting down."""

    reason = "DRAINING"


class BackendUnavailable(DSparkError):
    """A service behind this one does not answer."""

    reason = "BACKEND_UNAVAILABLE"
    code = "UNAVAILABLE"
    http_status = 503

    def __init__(self, service: str, problem: str) -> None:
        super().__init__(f"{service}: {problem}", {"service": service})

    def for_strangers(self) -> DSparkError:
        # What gRPC says of a failed call has addresses in it.
        return BackendUnavailable(self.metadata.get("service", "a service"), "does not answer")


class DeadlineExceeded(DSparkError):
    """The caller's deadline passed before the call ended."""

    reason = "DEADLINE_EXCEEDED"
    code = "DEADLINE_EXCEEDED"
    http_status = 504


class BodyTimeout(DSparkError):
    """The request's body did not come in time."""

    reason = "BODY_TIMEOUT"
    code = "DEADLINE_EXCEEDED"
    http_status = 408

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the request's body did not come within {seconds:g} s")


class Unauthenticated(DSparkError):
    """No valid API key was sent."""

    reason = "UNAUTHENTICATED"
    code = "UNAUTHENTICATED"
    http_status = 401


class PermissionDenied(DSparkError):
    """The caller is known and may not make this call."""

    reason = "PERMISSION_DENIED"
    code = "PERMISSION_DENIED"
    http_status = 403


class MessageTooLarge(DSparkError):
    """The request is larger than the service takes."""

    reason = "MESSAGE_TOO_LARGE"
    code = "RESOURCE_EXHAUSTED"
    http_status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request is larger than {limit} bytes", {"limit": str(limit)})


class InternalError(DSparkError):
    """A bug: the message says no more than that."""

    def __init__(self, message: str = "internal error; see the server's log") -> None:
        super().__init__(message)
