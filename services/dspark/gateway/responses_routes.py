"""POST /v1/responses."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dspark.errors import InvalidArgument
from dspark.gateway.answer_streaming import collected, streaming
from dspark.gateway.completion_routes import note_request, unique_request_id
from dspark.gateway.disconnect import cancel_on_disconnect
from dspark.gateway.gateway import Gateway
from dspark.gateway.responses_requests import parse_responses, responses_request
from dspark.gateway.responses_writer import ResponsesWriter

# This API's name of max_tokens.
_LIMIT = "max_output_tokens"


class ResponsesRoutes:
    """OpenAI's Responses API for text and tools; nothing is stored."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: Request) -> Response:
        body = await self._gateway.read_body(request, parse_responses)
        client = responses_request(body, unique_request_id(request))
        note_request(client, is_stream=bool(body.stream))
        writer = ResponsesWriter(body, self._gateway.config.model_name, client.request_id)
        async with cancel_on_disconnect(request.receive):
            events = self._gateway.answers.run([client])
            try:
                if body.stream:
                    return await streaming(events, writer)
                return JSONResponse(writer.whole(await collected(events)))
            except InvalidArgument as error:
                if error.field == "max_tokens":
                    error.renamed(_LIMIT)
                raise
