"""The request body of /v1/responses: names, types and nothing else."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from dspark.gateway.openai_types import CommonFields, ListOf, Strict, Text, either
from dspark.gateway.tool_choice import ChoiceMode, ToolChoice


class TextPart(Strict):
    """A part of an item's content."""

    type: Text
    text: Text


class MessageItem(Strict):
    """A turn; parts are joined with line breaks."""

    type: Text = "message"
    role: Text
    content: Text | ListOf[TextPart]


class FunctionCallItem(Strict):
    """A call that the assistant made; ``arguments`` is the text of a JSON object."""

    type: Text
    call_id: Text = Field(min_length=1)
    name: Text
    arguments: Text


class FunctionOutputItem(Strict):
    """What a call brought."""

    type: Text
    call_id: Text = Field(min_length=1)
    output: Text | ListOf[TextPart]


class ReasoningItem(Strict):
    """What the assistant thought before it said or called what follows."""

    type: Text
    content: ListOf[TextPart] | None = None


class FunctionTool(Strict):
    """A function that can be called; ``parameters`` is a JSON schema."""

    type: Text
    name: Text
    description: Text | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class TextFormat(Strict):
    """What the text has to be; the last four are for a JSON Schema, strict or not."""

    type: Text
    name: Text | None = None
    description: Text | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class TextOptions(Strict):
    """How the answer's text is written."""

    format: TextFormat | None = None


class ReasoningOptions(Strict):
    """How much the model is to think."""

    effort: Text | None = None


def _check_tool_choice(value: Any) -> ToolChoice | None:
    """A mode, or the object that names a function."""
    if value is None:
        return None
    if isinstance(value, str) and value in {mode.value for mode in ChoiceMode}:
        return ToolChoice(ChoiceMode(value))
    if isinstance(value, dict) and value.keys() == {"type", "name"}:
        name = value["name"]
        if value["type"] == "function" and isinstance(name, str) and name:
            return ToolChoice(ChoiceMode.REQUIRED, name)
    problem = 'must be "none", "auto", "required" or an object that names a function'
    raise PydanticCustomError("tool_choice", problem)


_NAMED = {
    "type": "object",
    "properties": {"type": {"const": "function"}, "name": {"type": "string"}},
    "required": ["type", "name"],
    "additionalProperties": False,
}
ToolChoiceField = Annotated[
    Any,
    PlainValidator(_check_tool_choice),
    either({"enum": [mode.value for mode in ChoiceMode]}, _NAMED, {"type": "null"}),
]
InputItem = MessageItem | FunctionCallItem | FunctionOutputItem | ReasoningItem


class ResponsesBody(CommonFields):
    """POST /v1/responses."""

    input: Text | list[InputItem] = Field(min_length=1)
    instructions: Text | None = None
    max_output_tokens: int | None = None
    metadata: dict[Text, Text] | None = None
    reasoning: ReasoningOptions | None = None
    text: TextOptions | None = None
    tools: ListOf[FunctionTool] | None = None
    tool_choice: ToolChoiceField = None
    parallel_tool_calls: bool | None = None
