"""dspark.v1.InferenceService: the public gRPC surface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc import aio

from dspark.errors import InvalidArgument
from dspark.gateway.client_request import (
    ClientRequest,
    Prompt,
    StructureWish,
    TextPrompt,
    TokenPrompt,
)
from dspark.gateway.gateway import Gateway
from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.request_id import check_request_id, draw_request_id
from dspark.gateway.request_trace import CHAT, TEXT, current_trace, traced
from dspark.gateway.text_assembly import TextChunk, TextOptions
from dspark.gateway.token_bytes import Spell
from dspark.gateway.wire.chat import call_deltas_to_proto, chat_from_proto
from dspark.logprobs import TokenLogprobs
from dspark.telemetry import current
from dspark.telemetry.grpc_carrier import carrier_of
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import inference_service_pb2_grpc as pb_grpc
from dspark.v1.sampling_pb2 import SamplingParams
from dspark.wire.sampling import (
    breakdown_to_proto,
    finish_reason_to_proto,
    request_class_from_proto,
    speculation_from_proto,
    stated_scalars,
    stats_to_proto,
    usage_to_proto,
)
from dspark.wire.sampling_options import stated_lists, stated_options
from dspark.wire.structured_output import structured_from_proto

SERVICE_NAME = "dspark.v1.InferenceService"


class InferenceServicer(pb_grpc.InferenceServiceServicer):
    """Thin: decode, run, encode."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Generate(
        self, request: pb.GenerateRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.GenerateResponse]:
        operation = CHAT if request.WhichOneof("prompt") == "chat" else TEXT
        with traced(operation, self._gateway.config.model_name, carrier_of(context)):
            self._gateway.lifecycle.check_accepting()
            client = client_request_from_proto(request)
            current.request_id.set(client.request_id)
            if (trace := current_trace()) is not None:
                trace.asked(client, is_stream=True)
            admitted = await self._gateway.admission.admit(client)
            events = self._gateway.generation.run(admitted.request, admitted.info.eos_token_ids)
            prompt, spell = admitted.request.prompt_token_ids, self._gateway.tokenizer.token_bytes
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, TextChunk):
                        yield pb.GenerateResponse(chunk=chunk_to_proto(event, prompt, spell))
                    else:
                        yield event_to_proto(event, self._gateway.config.model_name)

    async def ListModels(
        self, request: pb.ListModelsRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.ListModelsResponse:
        info = self._gateway.monitor.require_info()
        card = pb.ModelCard(
            id=self._gateway.config.model_name,
            max_model_len=info.max_request_tokens,
            sources=info.sources,
            exactness=info.exactness,
        )
        return pb.ListModelsResponse(models=[card])


def client_request_from_proto(request: pb.GenerateRequest) -> ClientRequest:
    """Raises InvalidArgument for a field this server does not know."""
    _refuse_unknown_fields(request)
    return ClientRequest(
        request_id=_request_id(request.request_id),
        prompt=_prompt(request),
        model=request.model or None,
        stop_token_ids=tuple(request.sampling.stop_token_ids),
        stop_strings=tuple(request.stop_strings),
        speculation=speculation_from_proto(request.speculation),
        cache_salt=request.cache_salt,
        priority=request.priority,
        use_prefix_cache=(
            request.use_prefix_cache if request.HasField("use_prefix_cache") else None
        ),
        request_class=request_class_from_proto(request.request_class),
        user=request.user,
        text=TextOptions(
            include_stop=request.include_stop_str_in_output,
            keep_special_tokens=(
                request.HasField("skip_special_tokens") and not request.skip_special_tokens
            ),
        ),
        bad_word_texts=tuple(request.bad_words),
        structure=_structure(request.sampling),
        **stated_scalars(request.sampling),
        **stated_options(request.sampling),
        **stated_lists(request.sampling),
    )


def event_to_proto(event: Started | Completed, model: str) -> pb.GenerateResponse:
    match event:
        case Started():
            started = pb.GenerateStarted(
                request_id=event.request_id,
                model=model,
                prompt_tokens=event.prompt_tokens,
                seed=event.seed,
            )
            return pb.GenerateResponse(started=started)
        case Completed():
            return pb.GenerateResponse(complete=_complete_to_proto(event))


def chunk_to_proto(
    chunk: TextChunk, prompt_token_ids: Sequence[int], spell: Spell
) -> pb.GenerateChunk:
    """``prompt_token_ids`` are the request's."""
    prompt = zip(prompt_token_ids[1:], chunk.prompt_logprobs, strict=False)
    return pb.GenerateChunk(
        text=chunk.text,
        token_ids=chunk.token_ids,
        num_accepted=chunk.num_accepted,
        logprobs=_logprobs_to_proto(zip(chunk.token_ids, chunk.logprobs, strict=False), spell),
        prompt_logprobs=_logprobs_to_proto(prompt, spell),
        reasoning=chunk.reasoning,
        tool_calls=call_deltas_to_proto(chunk.calls),
    )


def _logprobs_to_proto(
    told: Iterable[tuple[int, TokenLogprobs]], spell: Spell
) -> list[pb.TokenLogprobs]:
    """One entry for each token of which something is told."""
    return [
        pb.TokenLogprobs(
            token_id=token_id,
            logprob=logprobs.logprob,
            rank=logprobs.rank,
            bytes=spell(token_id),
            top=[
                pb.TopLogprob(token_id=i, logprob=logprob, bytes=spell(i))
                for i, logprob in zip(logprobs.top_token_ids, logprobs.top_logprobs, strict=True)
            ],
        )
        for token_id, logprobs in told
    ]


def _complete_to_proto(end: Completed) -> pb.GenerateComplete:
    return pb.GenerateComplete(
        finish_reason=finish_reason_to_proto(end.finish_reason),
        stop_string=end.stop_reason if isinstance(end.stop_reason, str) else None,
        stop_token_id=end.stop_reason if isinstance(end.stop_reason, int) else None,
        usage=usage_to_proto(end.usage),
        speculation=stats_to_proto(end.speculation) if end.speculation else None,
        steps=breakdown_to_proto(end.steps) if end.steps else None,
        calls_tools=end.calls_tools,
        reasoning_tokens=end.reasoning_tokens,
    )


def _request_id(given: str) -> str:
    return check_request_id(given, "request_id") if given else draw_request_id()


def _prompt(request: pb.GenerateRequest) -> Prompt:
    match request.WhichOneof("prompt"):
        case "text":
            return TextPrompt(request.text, "text")
        case "token_ids":
            return TokenPrompt(tuple(request.token_ids.ids), "token_ids")
        case "chat":
            return chat_from_proto(request.chat)
        case _:
            raise InvalidArgument("prompt", "one of text, token_ids and chat must be set")


def _structure(sampling: SamplingParams) -> StructureWish | None:
    if not sampling.HasField("structured"):
        return None
    output = structured_from_proto(sampling.structured)
    return StructureWish(output, f"sampling.structured.{output.structure.value}")


def _refuse_unknown_fields(request: pb.GenerateRequest) -> None:
    parts: dict[str, Message] = {
        "": request,
        "sampling.": request.sampling,
        "sampling.structured.": request.sampling.structured,
        "speculation.": request.speculation,
        "chat.": request.chat,
        **{f"chat.messages[{i}].": m for i, m in enumerate(request.chat.messages)},
        **{f"chat.tools[{i}].": tool for i, tool in enumerate(request.chat.tools)},
    }
    for path, message in parts.items():
        unknown = UnknownFieldSet(message)
        if len(unknown):
            raise InvalidArgument(f"{path}#{unknown[0].field_number}", "is not a known field")
