"""GET /v1/models, /health, /ready, /version and /metrics."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dspark.errors import DSparkError, ModelNotFound
from dspark.gateway.gateway import Gateway
from dspark.gateway.metrics import CONTENT_TYPE
from dspark.gateway.shortened import shortened
from dspark.gateway.token_source import SchedulerStatus

_OK = {"status": "ok"}


class StatusRoutes:
    """What operators, routers and model lists ask; ``grpc_port`` is None on a unix socket."""

    def __init__(self, gateway: Gateway, grpc_port: int | None) -> None:
        self._gateway = gateway
        self._grpc_port = grpc_port
        self._created = int(time.time())

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model_card()]})

    async def model(self, request: Request) -> Response:
        asked, served = request.path_params["model"], self._gateway.config.model_name
        if asked != served:
            raise ModelNotFound(shortened(asked), served)
        return JSONResponse(self._model_card())

    async def health(self, request: Request) -> Response:
        """Whether this process answers: to start it anew mends nothing behind it."""
        return JSONResponse(_OK)

    async def ready(self, request: Request) -> Response:
        """Whether requests are served: nothing behind is lost and nothing is shutting down."""
        problem = self._gateway.problem
        return _not_ready(problem) if problem else JSONResponse(_OK)

    async def version(self, request: Request) -> Response:
        return JSONResponse({"version": version("dspark")})

    async def metrics(self, request: Request) -> Response:
        status: SchedulerStatus | None = None
        try:
            status = await self._gateway.source.status()
        except DSparkError:
            pass  # our own counters are worth having without the scheduler's
        return Response(self._gateway.metrics.render(status), media_type=CONTENT_TYPE)

    def _model_card(self) -> dict[str, Any]:
        info = self._gateway.monitor.require_info()
        return {
            "id": self._gateway.config.model_name,
            "object": "model",
            "created": self._created,
            "owned_by": "dspark",
            "max_model_len": info.max_request_tokens,
            "dspark": {
                "grpc_port": self._grpc_port,
                "sources": list(info.sources),
                "exactness": info.exactness,
                "policy": info.policy,
            },
        }


def _not_ready(reason: str) -> Response:
    return JSONResponse({"status": "unavailable", "reason": reason}, 503)
