"""The client's side of inference_service.proto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from dspark.client import chat_wire
from dspark.client.options import ChatOptions, GenerateOptions, Prompt
from dspark.client.results import (
    Chunk,
    EngineStatus,
    Finished,
    Model,
    Started,
    Status,
    TokenLogprobs,
    Tokens,
    TopLogprob,
)
from dspark.errors import InvalidArgument
from dspark.request_class import RequestClass
from dspark.sampling import FinishReason, SpeculationParams
from dspark.structured_output import StructuredOutput
from dspark.tool_calls import ToolCallDelta
from dspark.v1 import inference_service_pb2 as pb
from dspark.v1 import sampling_pb2
from dspark.wire.sampling import (
    SAMPLING_SCALARS,
    breakdown_from_proto,
    finish_reason_from_proto,
    request_class_to_proto,
    speculation_to_proto,
    stats_from_proto,
    usage_from_proto,
)
from dspark.wire.sampling_options import OPTION_SCALARS
from dspark.wire.structured_output import structured_to_proto

_DIRECT = (
    "model",
    "request_id",
    "cache_salt",
    "priority",
    "use_prefix_cache",
    "user",
    "include_stop_str_in_output",
    "skip_special_tokens",
)


def request_to_proto(
    prompt: Prompt, options: GenerateOptions, n: int | None = None
) -> pb.GenerateRequest:
    """Raises TypeError for an unknown option, InvalidArgument for a value its field cannot hold."""
    given = _known(options, GenerateOptions)
    if given.get("top_k") == -1:
        given["top_k"] = 0
    request = pb.GenerateRequest(n=n)
    _set_prompt(request, prompt, given)
    for name in _DIRECT:
        _set(request, name, given)
    for name in (*SAMPLING_SCALARS, *OPTION_SCALARS):
        _set(request.sampling, name, given)
    if "logit_bias" in given:
        _add_bias(request.sampling, given["logit_bias"])
    if "bad_words" in given:
        _add_bad_words(request, given["bad_words"])
    if "allowed_token_ids" in given:
        _extend(request.sampling.allowed_token_ids, "allowed_token_ids", given["allowed_token_ids"])
    if "stop" in given:
        stop = given["stop"]
        _extend(request.stop_strings, "stop", (stop,) if isinstance(stop, str) else stop)
    if "stop_token_ids" in given:
        _extend(request.sampling.stop_token_ids, "stop_token_ids", given["stop_token_ids"])
    if "structured" in given:
        request.sampling.structured.CopyFrom(_structured(given["structured"]))
    if "request_class" in given:
        request.request_class = request_class_to_proto(_class_of(given["request_class"]))
    if "speculation" in given:
        request.speculation.CopyFrom(_speculation(given["speculation"]))
    return request


def started_from_proto(message: pb.GenerateStarted) -> Started:
    return Started(message.request_id, message.model, message.prompt_tokens, message.seed)


def chunk_from_proto(message: pb.GenerateChunk) -> Chunk:
    return Chunk(
        message.text,
        tuple(message.token_ids),
        message.num_accepted,
        tuple(map(_logprobs, message.logprobs)),
        tuple(map(_logprobs, message.prompt_logprobs)),
        message.reasoning,
        tuple(ToolCallDelta(c.index, c.id, c.name, c.arguments) for c in message.tool_calls),
    )


def _logprobs(message: pb.TokenLogprobs) -> TokenLogprobs:
    top = tuple(TopLogprob(each.token_id, each.logprob, each.bytes) for each in message.top)
    return TokenLogprobs(message.token_id, message.logprob, message.rank, message.bytes, top)


def finished_from_proto(message: pb.GenerateComplete) -> Finished:
    stop = message.WhichOneof("stop_reason")
    return Finished(
        finish_reason=finish_reason_from_proto(message.finish_reason) or FinishReason.ERROR,
        stop_reason=None if stop is None else getattr(message, stop),
        usage=usage_from_proto(message.usage),
        speculation=stats_from_proto(message.speculation),
        steps=breakdown_from_proto(message.steps),
        calls_tools=message.calls_tools,
        reasoning_tokens=message.reasoning_tokens if message.HasField("reasoning_tokens") else None,
    )


def models_from_proto(message: pb.ListModelsResponse) -> tuple[Model, ...]:
    return tuple(
        Model(card.id, card.max_model_len, tuple(card.sources), card.exactness)
        for card in message.models
    )


def tokenize_request(
    prompt: Prompt, layout: ChatOptions, *, add_special_tokens: bool, return_spellings: bool
) -> pb.TokenizeRequest:
    """Raises TypeError for an unknown option, InvalidArgument for what is no text and no chat."""
    asked = pb.GenerateRequest()
    _set_prompt(asked, prompt, _known(layout, ChatOptions))
    request = pb.TokenizeRequest(
        add_special_tokens=add_special_tokens, return_token_strs=return_spellings
    )
    match asked.WhichOneof("prompt"):
        case "text":
            request.text = asked.text
        case "chat":
            request.chat.CopyFrom(asked.chat)
        case _:
            raise InvalidArgument("prompt", "must be text or chat messages")
    return request


def detokenize_request(token_ids: Sequence[int]) -> pb.DetokenizeRequest:
    """Raises InvalidArgument for what are no token ids."""
    request = pb.DetokenizeRequest()
    _extend(request.token_ids, "token_ids", token_ids)
    return request


def tokens_from_proto(message: pb.TokenizeResponse) -> Tokens:
    return Tokens(tuple(message.token_ids), message.max_model_len, tuple(message.token_strs))


def status_from_proto(message: pb.GetStatusResponse) -> Status:
    counts = {field.name: getattr(message.engine, field.name) for field in fields(EngineStatus)}
    return Status(
        version=message.version,
        is_ready=message.is_ready,
        problem=message.problem,
        num_answering=message.num_answering,
        engine=EngineStatus(**counts) if message.HasField("engine") else None,
    )


def _known(options: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """The options that are not None; raises TypeError for one that ``kind`` does not have."""
    unknown = set(options) - set(kind.__annotations__)
    if unknown:
        raise TypeError(f"unknown option {sorted(unknown)[0]!r}")
    return {name: value for name, value in options.items() if value is not None}


def _set(message: Any, name: str, given: Mapping[str, Any]) -> None:
    if name not in given:
        return
    try:
        setattr(message, name, given[name])
    except (TypeError, ValueError) as error:
        raise InvalidArgument(name, str(error)) from error


def _extend(repeated: Any, name: str, values: Any) -> None:
    try:
        repeated.extend(values)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(name, str(error)) from error


def _add_bias(sampling: sampling_pb2.SamplingParams, bias: Any) -> None:
    if not isinstance(bias, Mapping):
        raise InvalidArgument("logit_bias", "must map token ids to numbers")
    for token_id, value in bias.items():
        try:
            sampling.logit_bias.add(token_id=token_id, bias=value)
        except (TypeError, ValueError) as error:
            raise InvalidArgument("logit_bias", str(error)) from error


def _add_bad_words(request: pb.GenerateRequest, words: Any) -> None:
    if isinstance(words, str) or not isinstance(words, Sequence):
        raise InvalidArgument("bad_words", "must be a list of texts or token runs")
    for word in words:
        if isinstance(word, str):
            _extend(request.bad_words, "bad_words", (word,))
        else:
            _extend(request.sampling.bad_words.add().token_ids, "bad_words", word)


def _set_prompt(request: pb.GenerateRequest, prompt: Prompt, given: Mapping[str, Any]) -> None:
    if not _is_chat(prompt):
        for name in chat_wire.OPTIONS:
            if name in given:
                raise InvalidArgument(name, "is for conversations alone")
    if isinstance(prompt, str):
        try:
            request.text = prompt
        except ValueError as error:
            raise InvalidArgument("prompt", "must be Unicode text: " + str(error)) from error
    elif isinstance(prompt, (bytes, bytearray, memoryview)):
        raise InvalidArgument("prompt", "is bytes: decode it to text")
    elif _is_chat(prompt):
        messages: Any = prompt
        request.chat.CopyFrom(chat_wire.chat_to_proto(messages, given))
    elif isinstance(prompt, Sequence):
        request.token_ids.SetInParent()
        _extend(request.token_ids.ids, "prompt", prompt)
    else:
        raise InvalidArgument("prompt", "must be text, token ids or chat messages")


def _is_chat(prompt: Any) -> bool:
    return isinstance(prompt, Sequence) and bool(prompt) and isinstance(prompt[0], Mapping)


def _class_of(value: Any) -> RequestClass:
    try:
        return RequestClass(value)
    except ValueError:
        known = " or ".join(each.value for each in RequestClass)
        raise InvalidArgument("request_class", f"must be {known}") from None


def _structured(value: Any) -> sampling_pb2.StructuredOutput:
    if not isinstance(value, StructuredOutput):
        raise InvalidArgument("structured", "must be a StructuredOutput")
    try:
        return structured_to_proto(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument("structured", str(error)) from error


def _speculation(value: Any) -> sampling_pb2.SpeculationParams:
    if isinstance(value, bool):
        return sampling_pb2.SpeculationParams(enabled=value)
    if isinstance(value, SpeculationParams):
        try:
            return speculation_to_proto(value)
        except (TypeError, ValueError) as error:
            raise InvalidArgument("speculation", str(error)) from error
    raise InvalidArgument("speculation", "must be True, False or SpeculationParams")
