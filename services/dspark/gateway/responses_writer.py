"""An answer in the words of the Responses API: one object, or a stream of named events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from dspark.errors import DSparkError, InternalError
from dspark.gateway.choice_streams import ChoiceEvent
from dspark.gateway.event_stream import server_sent
from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.http_errors import body_of
from dspark.gateway.responses_objects import FAILED, ended_response, response_shell
from dspark.gateway.responses_output import ResponsesOutput
from dspark.gateway.responses_output_items import ItemEvent
from dspark.gateway.responses_types import ResponsesBody
from dspark.gateway.text_assembly import TextChunk
from dspark.sampling import FinishReason


class ResponsesWriter:
    """Writes one response, which has one choice."""

    def __init__(self, body: ResponsesBody, model: str, request_id: str) -> None:
        self._shell = response_shell(body, model, f"resp_{request_id}", int(time.time()))
        self._output = ResponsesOutput(request_id)
        self._started: Started | None = None
        self._num_events = 0

    def whole(self, items: Sequence[ChoiceEvent]) -> dict[str, Any]:
        """The response that is not streamed, from all events in their order."""
        for item in items:
            match item.event:
                case Started() as started:
                    self._started = started
                case TextChunk() as chunk:
                    self._output.add(chunk)
                case Completed() as end:
                    return self._ended(end)[1]
        raise InternalError("the request ended without a result")

    def streamed(self, item: ChoiceEvent) -> bytes:
        """The events that the API sends for it."""
        match item.event:
            case Started() as started:
                self._started = started
                names = ("created", "in_progress")
                return self._events((name, {"response": self._shell}) for name in names)
            case TextChunk() as chunk:
                return self._events(self._output.add(chunk))
            case Completed() as end:
                events, response = self._ended(end)
                return self._events([*events, (response["status"], {"response": response})])

    def broken(self, error: DSparkError) -> bytes:
        """A failed response, which is the last event."""
        what = body_of(error)["error"]
        failure = {"code": what["code"], "message": what["message"]}
        response = {**self._shell, "status": FAILED, "error": failure}
        return self._events([(FAILED, {"response": response})])

    def _ended(self, end: Completed) -> tuple[list[ItemEvent], dict[str, Any]]:
        assert self._started is not None
        events = self._output.end(is_cut=end.finish_reason is not FinishReason.STOP)
        return events, ended_response(self._shell, self._output.items, self._started, end)

    def _events(self, events: Iterable[ItemEvent]) -> bytes:
        return b"".join(self._event(*event) for event in events)

    def _event(self, name: str, fields: dict[str, Any]) -> bytes:
        kind = f"response.{name}"
        body = {"type": kind, "sequence_number": self._num_events, **fields}
        self._num_events += 1
        return server_sent(json.dumps(body, separators=(",", ":")), kind)
