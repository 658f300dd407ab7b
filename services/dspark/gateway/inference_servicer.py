"""dspark.v1.InferenceService: the public gRPC surface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc import aio

from dspark.errors import InvalidArgument
from dspark.gateway.choice_streams import ChoiceEvent
from dspark.gateway.client_request import (
    ClientRequest,
    Prompt,
    StructureWish,
    TextPrompt,
    TokenPrompt,
)
from dspark.gateway.gateway import Gateway, GatewayStatus
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

SERVICE = pb.DESCRIPTOR.services_by_name["InferenceService"]
SERVICE_NAME: str = SERVICE.full_name
_ENGINE_COUNTS = [field.name for field in pb.EngineStatus.DESCRIPTOR.fields]


class InferenceServicer(pb_grpc.InferenceServiceServicer):
    """Thin: decode, run, encode."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Generate(
        self, request: pb.GenerateRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.GenerateResponse]:
        operation = CHAT if request.WhichOneof("prompt") == "chat" else TEXT
        with traced(operation, self._gateway.config.model_name, carrier_of(context)):
            self._check_turns(request.chat)
            client = client_request_from_proto(request)
            current.request_id.set(client.request_id)
            if (trace := current_trace()) is not None:
                trace.asked(client, is_stream=True)
            n = request.n if request.HasField("n") else 1
            self._gateway.config.request_limits.check_n(n)
            async with aclosing(self._gateway.answers.run([client], n)) as events:
                prompts: dict[int, Sequence[int]] = {}
                async for item in events:
                    if isinstance(item.event, Started):
                        prompts[item.index] = item.event.prompt_token_ids
                    yield event_to_proto(
                        item,
                        self._gateway.config.model_name,
                        prompts[item.index],
                        self._gateway.tokenizer.token_bytes,
                    )

    def _check_turns(self, chat: pb.ChatPrompt) -> None:
        limits = self._gateway.config.request_limits
        limits.check_turns("chat.messages", len(chat.messages))
        limits.check_turns("chat.tools", len(chat.tools))

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

    async def Tokenize(
        self, request: pb.TokenizeRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.TokenizeResponse:
        self._check_turns(request.chat)
        refuse_unknown_fields({"": request})
        tokenized = await self._gateway.tokenization.tokenize(
            request.model or None,
            _prompt(request),
            add_special_tokens=request.add_special_tokens,
            return_token_strs=request.return_token_strs,
        )
        return pb.TokenizeResponse(
            token_ids=tokenized.token_ids,
            token_strs=tokenized.token_strs,
            max_model_len=tokenized.max_model_len,
        )

    async def Detokenize(
        self, request: pb.DetokenizeRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.DetokenizeResponse:
        refuse_unknown_fields({"": request})
        text = await self._gateway.tokenization.detokenize(
            request.model or None, request.token_ids, "token_ids"
        )
        return pb.DetokenizeResponse(text=text)

    async def GetStatus(
        self, request: pb.GetStatusRequest, context: aio.ServicerContext[Any, Any]
    ) -> pb.GetStatusResponse:
        return status_to_proto(await self._gateway.status())


def client_request_from_proto(request: pb.GenerateRequest) -> ClientRequest:
    """Raises InvalidArgument for a field this server does not know."""
    parts: dict[str, Message] = {
        "": request,
        "sampling.": request.sampling,
        "sampling.structured.": request.sampling.structured,
        "speculation.": request.speculation,
        "chat.": request.chat,
        **{f"chat.messages[{i}].": m for i, m in enumerate(request.chat.messages)},
        **{f"chat.tools[{i}].": tool for i, tool in enumerate(request.chat.tools)},
    }
    refuse_unknown_fields(parts)
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


def event_to_proto(
    item: ChoiceEvent, model: str, prompt_token_ids: Sequence[int], spell: Spell
) -> pb.GenerateResponse:
    """``prompt_token_ids`` are the choice's."""
    index = item.index
    match item.event:
        case Started() as event:
            started = pb.GenerateStarted(
                request_id=event.request_id,
                model=model,
                prompt_tokens=event.prompt_tokens,
                seed=event.seed,
                index=index,
            )
            return pb.GenerateResponse(started=started)
        case TextChunk() as chunk:
            written = _chunk_to_proto(chunk, prompt_token_ids, spell)
            written.index = index
            return pb.GenerateResponse(chunk=written)
        case Completed() as end:
            return pb.GenerateResponse(complete=_complete_to_proto(end, index))


def _chunk_to_proto(
    chunk: TextChunk, prompt_token_ids: Sequence[int], spell: Spell
) -> pb.GenerateChunk:
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


def status_to_proto(status: GatewayStatus) -> pb.GetStatusResponse:
    engine = status.engine
    return pb.GetStatusResponse(
        version=status.version,
        is_ready=not status.problem,
        problem=status.problem,
        num_answering=status.num_answering,
        engine=None
        if engine is None
        else pb.EngineStatus(**{name: getattr(engine, name) for name in _ENGINE_COUNTS}),
    )


def _complete_to_proto(end: Completed, index: int) -> pb.GenerateComplete:
    return pb.GenerateComplete(
        finish_reason=finish_reason_to_proto(end.finish_reason),
        stop_string=end.stop_reason if isinstance(end.stop_reason, str) else None,
        stop_token_id=end.stop_reason if isinstance(end.stop_reason, int) else None,
        usage=usage_to_proto(end.usage),
        speculation=stats_to_proto(end.speculation) if end.speculation else None,
        steps=breakdown_to_proto(end.steps) if end.steps else None,
        calls_tools=end.calls_tools,
        reasoning_tokens=end.reasoning_tokens,
        index=index,
    )


def _request_id(given: str) -> str:
    return check_request_id(given, "request_id") if given else draw_request_id()


def _prompt(request: pb.GenerateRequest | pb.TokenizeRequest) -> Prompt:
    match request.WhichOneof("prompt"):
        case "text":
            return TextPrompt(request.text, "text")
        case "token_ids" if isinstance(request, pb.GenerateRequest):
            return TokenPrompt(tuple(request.token_ids.ids), "token_ids")
        case "chat":
            return chat_from_proto(request.chat)
        case _:
            raise InvalidArgument("prompt", f"one of {_prompts_of(request)} must be set")


def _structure(sampling: SamplingParams) -> StructureWish | None:
    if not sampling.HasField("structured"):
        return None
    output = structured_from_proto(sampling.structured)
    return StructureWish(output, f"sampling.structured.{output.structure.value}")


def _prompts_of(request: Message) -> str:
    *others, last = (field.name for field in request.DESCRIPTOR.oneofs_by_name["prompt"].fields)
    return f"{', '.join(others)} and {last}"


def refuse_unknown_fields(parts: Mapping[str, Message]) -> None:
    """Raises InvalidArgument for a number that a part's contract does not know."""
    for path, message in parts.items():
        unknown = UnknownFieldSet(message)
        if len(unknown):
            raise InvalidArgument(f"{path}#{unknown[0].field_number}", "is not a known field")
