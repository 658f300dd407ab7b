"""The request bodies of the OpenAI surface: names, types and nothing else."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from dspark.gateway.unicode_text import LONE_SURROGATE, is_text

Item = TypeVar("Item")
# One wrong item is enough: a list may have any number of them.
ListOf = Annotated[list[Item], Field(fail_fast=True)]


def _are_ints(values: list[Any]) -> bool:
    return set(map(type, values)) <= {int}


def _check_text(value: str) -> str:
    if not is_text(value):
        raise PydanticCustomError("text", LONE_SURROGATE)
    return value


def _check_prompts(value: Any) -> tuple[str | tuple[int, ...], ...]:
    """Texts and lists of token ids: a list of them, or one alone."""
    if isinstance(value, list) and not _are_ints(value):
        return tuple(map(_check_prompt, value))
    return (_check_prompt(value),)


def _check_prompt(value: Any) -> str | tuple[int, ...]:
    if isinstance(value, str):
        return _check_text(value)
    if isinstance(value, list) and _are_ints(value):
        return tuple(value)
    raise PydanticCustomError("prompt", "must be a text or a list of token ids, or a list of those")


def _check_stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (_check_text(value),)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(map(_check_text, value))
    raise PydanticCustomError("stop", "must be a string or a list of strings")


def _check_bias(value: Any) -> tuple[tuple[int, float], ...]:
    """Token ids as JSON spells keys, without those whose bias is none."""
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise PydanticCustomError("logit_bias", "must be an object of token ids and numbers")
    for key, bias in value.items():
        if not (key.isascii() and key.isdecimal() and len(key) <= 10):
            raise PydanticCustomError("logit_bias", "must have token ids as its keys")
        if type(bias) not in (int, float):
            raise PydanticCustomError("logit_bias", "must have numbers as its values")
    return tuple((int(key), bias) for key, bias in value.items() if bias != 0)


def _check_bad_words(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(map(_check_text, value))
    raise PydanticCustomError("bad_words", "must be a list of strings")


def either(*schemas: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": list(schemas)})


Text = Annotated[str, AfterValidator(_check_text)]
_TEXT = {"type": "string"}
_IDS = {"type": "array", "items": {"type": "integer"}}
_PROMPTS = {"type": "array", "items": {"anyOf": [_TEXT, _IDS]}, "minItems": 1}
PromptField = Annotated[Any, PlainValidator(_check_prompts), either(_TEXT, _IDS, _PROMPTS)]
StopField = Annotated[
    Any,
    PlainValidator(_check_stop),
    either(_TEXT, {"type": "array", "items": _TEXT}, {"type": "null"}),
]

BiasField = Annotated[
    Any,
    PlainValidator(_check_bias),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "number"}}),
]
BadWordsField = Annotated[
    Any, PlainValidator(_check_bad_words), WithJsonSchema({"type": "array", "items": _TEXT})
]


class Strict(BaseModel):
    """Takes what it declares, of the type that it declares."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class SpeculationOptions(Strict):
    """Our extension: steers candidates, changes speed only."""

    enabled: bool | None = None
    sources: ListOf[Text] | None = None
    max_draft_tokens: int | None = None
    policy: Text | None = None


class StreamOptions(Strict):
    """Options of a streamed answer."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class JsonSchemaFormat(Strict):
    """A JSON Schema that the text meets, strict or not."""

    name: Text | None = None
    description: Text | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(Strict):
    """OpenAI's form of structured output."""

    type: Text
    json_schema: JsonSchemaFormat | None = None


class StructuredOutputs(Strict):
    """vLLM's form of structured output: one of the first five."""

    json_: dict[str, Any] | Text | None = Field(None, alias="json")
    regex: Text | None = None
    choice: ListOf[Text] | None = None
    grammar: Text | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool | None = None


class CommonFields(Strict):
    """What completions and chat share."""

    model: Text | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    n: int | None = None
    stop: StopField = ()
    stop_token_ids: ListOf[int] | None = None
    ignore_eos: bool | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: BiasField = ()
    bad_words: BadWordsField = ()
    allowed_token_ids: ListOf[int] | None = Field(None, min_length=1)
    min_tokens: int | None = None
    prompt_logprobs: int | None = None
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
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | Text | None = None
    guided_regex: Text | None = None
    guided_choice: ListOf[Text] | None = None
    guided_grammar: Text | None = None


class CompletionBody(CommonFields):
    """POST /v1/completions."""

    prompt: PromptField
    best_of: int | None = None
    logprobs: int | None = None
    echo: bool | None = None
