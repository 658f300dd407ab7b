"""The request bodies of the OpenAI surface: names, types and nothing else."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from dspark.gateway.unicode_text import LONE_SURROGATE, is_text


def _is_int(value: Any) -> bool:
    return type(value) is int


def _check_text(value: str) -> str:
    if not is_text(value):
        raise PydanticCustomError("text", LONE_SURROGATE)
    return value


def _check_prompt(value: Any) -> str | tuple[int, ...]:
    """Text or token ids, alone or as a list of exactly one."""
    if isinstance(value, list) and value and not all(map(_is_int, value)):
        if len(value) != 1:
            raise PydanticCustomError("prompt", "a list of prompts must have exactly one")
        value = value[0]
    if isinstance(value, str):
        return _check_text(value)
    if isinstance(value, list) and all(map(_is_int, value)):
        return tuple(value)
    raise PydanticCustomError("prompt", "must be a text or a list of token ids")


def _check_stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (_check_text(value),)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(map(_check_text, value))
    raise PydanticCustomError("stop", "must be a string or a list of strings")


def either(*schemas: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": list(schemas)})


Text = Annotated[str, AfterValidator(_check_text)]
_TEXT = {"type": "string"}
_IDS = {"type": "array", "items": {"type": "integer"}}
PromptField = Annotated[Any, PlainValidator(_check_prompt), either(_TEXT, _IDS)]
StopField = Annotated[
    Any, PlainValidator(_check_stop), either(_TEXT, {"type": "array", "items": _TEXT})
]


class Strict(BaseModel):
    """An object without fields that are not known, of exactly the stated types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class SpeculationOptions(Strict):
    """Our extension: steers candidates, changes speed only."""

    enabled: bool | None = None
    sources: list[Text] | None = None
    max_draft_tokens: int | None = None
    policy: Text | None = None


class StreamOptions(Strict):
    """Options of a streamed answer."""

    include_usage: bool | None = None


class CommonFields(Strict):
    """What completions and chat share."""

    model: Text | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: StopField = ()
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Text | None = None
    service_tier: Text | None = None
    cache_salt: Text | None = None
    priority: int | None = None
    speculation: SpeculationOptions | None = None
    use_prefix_cache: bool | None = None
    return_token_ids: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    # of this kind of tokenizer, no text depends on it
    spaces_between_special_tokens: bool | None = None


class CompletionBody(CommonFields):
    """POST /v1/completions."""

    prompt: PromptField
