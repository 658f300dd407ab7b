"""What a conversation's tools make of the text of its answer."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.errors import UnsupportedField
from dspark.gateway.client_request import ChatPrompt, StructureWish
from dspark.gateway.parsing.think_tags import Stage
from dspark.gateway.parsing.thought_grammar import SpecialId
from dspark.gateway.parsing.tool_grammar import (
    arguments_schema,
    marks_calls,
    required_calls,
    strict_calls,
)
from dspark.gateway.tool_choice import ChoiceMode, Tool, ToolChoice
from dspark.structured_output import StructuredOutput

# Of more it would take long to find the one that is wrong.
_MAX_PARTS = 16


def call_structure(
    prompt: ChatPrompt,
    choice: ToolChoice,
    tools: Sequence[Tool],
    format_name: str,
    reasoning: Stage | None,
    special_id: SpecialId,
) -> StructureWish | None:
    """The grammar that a forced choice or strict functions ask for; None where nothing does.

    ``tools`` are those that may be called, ``reasoning`` is the stage in which the answer begins.
    Raises UnsupportedField for a strict function whose calls nothing tells from text.
    """
    is_forced = choice.mode is ChoiceMode.REQUIRED
    held = [tool for tool in tools if is_forced or tool.strict]
    if not held:
        return None
    label = f"{prompt.path}{prompt.choice_name}" if is_forced else _field(prompt, held[0], "strict")
    if not is_forced and not marks_calls(format_name):
        problem = (
            "cannot be honoured while the model may also answer with text: nothing marks where its "
            f"calls begin; it is with {prompt.choice_name} 'required' or a function's name"
        )
        raise UnsupportedField(label, problem)
    grammar = (required_calls if is_forced else strict_calls)(
        format_name,
        tools,
        allows_several=prompt.parallel_tool_calls,
        special_id=special_id,
        reasoning=reasoning or Stage.CONTENT,
    )
    parts = tuple(
        StructureWish(
            StructuredOutput.json_schema(arguments_schema(tool.parameters)),
            _field(prompt, tool, "parameters"),
        )
        for tool in (held if len(held) <= _MAX_PARTS else ())
    )
    return StructureWish(StructuredOutput.grammar(grammar), label, parts)


def _field(prompt: ChatPrompt, tool: Tool, name: str) -> str:
    place = f"{prompt.path}{prompt.tools_name}[{prompt.tools.index(tool)}]"
    return f"{place}.{prompt.function_holder}{name}"
