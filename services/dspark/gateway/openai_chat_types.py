"""The body of a chat request of the OpenAI surface: names, types and nothing else."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from dspark.errors import InvalidArgument
from dspark.gateway.openai_types import CommonFields, ListOf, Strict, Text, either
from dspark.gateway.tool_choice import ChoiceMode, ToolChoice


class TextPart(Strict):
    """A part of a message's content."""

    type: Text
    text: Text


class FunctionCall(Strict):
    """A function's name and the text of a JSON object."""

    name: Text
    arguments: Text


class MessageToolCall(Strict):
    """A call that the assistant made."""

    id: Text
    type: Text = "function"
    function: FunctionCall


class Message(Strict):
    """One turn; parts are joined with line breaks."""

    role: Text
    content: Text | ListOf[TextPart] | None = None
    name: Text | None = None
    tool_calls: ListOf[MessageToolCall] | None = None
    function_call: FunctionCall | None = None
    tool_call_id: Text | None = None
    reasoning_content: Text | None = None
    reasoning: Text | None = None

    def check(self, path: str) -> None:
        """Raises InvalidArgument for a turn that says nothing, or that contradicts itself."""
        if self.content is None and not (self.tool_calls or self.function_call):
            raise InvalidArgument(f"{path}.content", "is required")
        if None not in (self.reasoning, self.reasoning_content):
            if self.reasoning != self.reasoning_content:
                raise InvalidArgument(f"{path}.reasoning", "contradicts reasoning_content")
        for index, call in enumerate(self.tool_calls or ()):
            if call.type != "function":
                raise InvalidArgument(f"{path}.tool_calls[{index}].type", "must be 'function'")


class FunctionDefinition(Strict):
    """A function that can be called; ``parameters`` is a JSON schema."""

    name: Text
    description: Text | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolDefinition(Strict):
    """A tool; functions are the only kind."""

    type: Text
    function: FunctionDefinition


def _check_tool_choice(value: Any) -> ToolChoice | None:
    """A mode, or the object that names a function."""
    if value is None:
        return None
    if isinstance(value, str) and value in {mode.value for mode in ChoiceMode}:
        return ToolChoice(ChoiceMode(value))
    if isinstance(value, dict) and value.keys() == {"type", "function"}:
        function = value["function"]
        name = function.get("name") if isinstance(function, dict) else None
        if value["type"] == "function" and isinstance(name, str) and name and len(function) == 1:
            return ToolChoice(ChoiceMode.REQUIRED, name)
    problem = 'must be "none", "auto", "required" or an object that names a function'
    raise PydanticCustomError("tool_choice", problem)


def _check_function_call(value: Any) -> ToolChoice | None:
    """As a choice of tools, in the words that functions had."""
    if value is None:
        return None
    if value in (ChoiceMode.NONE.value, ChoiceMode.AUTO.value):
        return ToolChoice(ChoiceMode(value))
    if isinstance(value, dict) and value.keys() == {"name"}:
        name = value["name"]
        if isinstance(name, str) and name:
            return ToolChoice(ChoiceMode.REQUIRED, name)
    problem = 'must be "none", "auto" or an object that has the name of a function'
    raise PydanticCustomError("function_call", problem)


_NAMED = {
    "type": "object",
    "properties": {
        "type": {"const": "function"},
        "function": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
ToolChoiceField = Annotated[
    Any,
    PlainValidator(_check_tool_choice),
    either({"enum": [mode.value for mode in ChoiceMode]}, _NAMED, {"type": "null"}),
]

_FUNCTION = {"type": "object", "properties": {"name": {"type": "string"}}}
FunctionCallField = Annotated[
    Any,
    PlainValidator(_check_function_call),
    either({"enum": ["none", "auto"]}, _FUNCTION, {"type": "null"}),
]


class ChatBody(CommonFields):
    """POST /v1/chat/completions."""

    messages: ListOf[Message] = Field(min_length=1)
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: ListOf[ToolDefinition] | None = None
    tool_choice: ToolChoiceField = None
    parallel_tool_calls: bool | None = None
    functions: ListOf[FunctionDefinition] | None = None
    function_call: FunctionCallField = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: Text | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: ListOf[dict[str, Any]] | None = None
    include_reasoning: bool | None = None
    reasoning_effort: Text | None = None
