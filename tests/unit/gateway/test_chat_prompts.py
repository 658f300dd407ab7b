"""Conversations: which are well formed, what their template gets, how their answers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway.chat_prompts import ChatPrompts, ChatSettings, LaidOutChat, tools_problem
from dspark.gateway.chat_template import ChatTemplate, TemplateText
from dspark.gateway.client_request import ChatMessage, ChatPrompt
from dspark.gateway.parsing.call_formats import FORMATS
from dspark.gateway.parsing.think_tags import Stage
from dspark.gateway.template_files import ChatTemplates
from dspark.gateway.tool_choice import ChoiceMode, Tool, ToolChoice
from dspark.tool_calls import ToolCall

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{{ m.tool_calls | tojson if m.tool_calls }}"
    "{{ m.reasoning_content }}{{ m.tool_call_id }}{{ m.name }}{% endfor %}"
    "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{{ documents | tojson if documents }}"
    "{{ mood }}{% if add_generation_prompt %}<assistant>{% endif %}"
)
HELLO = ChatMessage("user", "hi")
TOOLS = (Tool("f", "d", {"type": "object"}), Tool("g"))
CALL = ToolCall("c1", "f", '{"a": 1}')
CALLING = ChatMessage("assistant", None, tool_calls=(CALL,))
NAMED = ToolChoice(ChoiceMode.REQUIRED, "f")


class FewTokens:
    """A vocabulary in which one mark is a special token."""

    def has_token(self, token: str) -> bool:
        return token == "</tool_call>"

    def special_id(self, token: str) -> int | None:
        return 7 if self.has_token(token) else None


class InlineRenderer:
    """Renders in this process."""

    async def render(self, template: TemplateText, arguments: Mapping[str, Any]) -> str:
        return ChatTemplate(template.source, template.tokens).render(**arguments)

    async def read(self, source: str, tokens: Mapping[str, str]) -> TemplateText:
        return ChatTemplate(source, tokens).text


async def _lay_out(
    *messages: ChatMessage,
    source: str | None = TEMPLATE,
    tool_use: str | None = None,
    settings: ChatSettings = ChatSettings(),  # noqa: B008 - frozen
    **fields: Any,
) -> LaidOutChat:
    templates = None
    if source is not None:
        apart = None if tool_use is None else ChatTemplate(tool_use, {})
        templates = ChatTemplates(ChatTemplate(source, {"bos_token": "<s>"}), apart)
    chats = ChatPrompts(templates, InlineRenderer(), settings, FewTokens())
    return await chats.lay_out(ChatPrompt(messages or (HELLO,), **fields))


async def _refusal(*messages: ChatMessage, **fields: Any) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        await _lay_out(*messages, **fields)
    return caught.value


async def test_all_that_a_turn_has_reaches_the_template() -> None:
    chat = await _lay_out(
        ChatMessage("system", "s", name="n"),
        ChatMessage("assistant", None, tool_calls=(CALL,), reasoning="r"),
        ChatMessage("tool", "1", tool_call_id="c1"),
    )
    calls = '[{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]'
    assert chat.text == f"<system>sn<assistant>{calls}r<tool>1c1<assistant>"
    assert chat.answer is None


async def test_a_developer_is_the_system_to_templates_that_know_none() -> None:
    turn = ChatMessage("developer", "x")
    assert (await _lay_out(turn)).text.startswith("<system>x")
    knowing = await _lay_out(turn, source="{# developer #}{{ messages[0].role }}")
    assert knowing.text == "developer"


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (ChatMessage("robot", "x"), "messages[1].role"),
        (ChatMessage("user", None), "messages[1].content"),
        (ChatMessage("tool", "x"), "messages[1].tool_call_id"),
        (replace(HELLO, tool_call_id="c"), "messages[1].tool_call_id"),
        (replace(HELLO, tool_calls=(CALL,)), "messages[1].tool_calls"),
        (replace(HELLO, reasoning="r"), "messages[1].reasoning_content"),
        *[
            (
                replace(CALLING, tool_calls=(CALL, ToolCall("c", "f", text))),
                "messages[1].tool_calls[1].function.arguments",
            )
            for text in ("{", "[]", "1", "[" * 100_000)
        ],
    ],
)
async def test_a_turn_that_is_none_is_named(message: ChatMessage, field: str) -> None:
    assert (await _refusal(HELLO, message)).field == field
    assert (await _refusal(HELLO, message, path="chat.")).field == f"chat.{field}"


async def test_tools_reach_the_template_and_the_answer() -> None:
    chat = await _lay_out(tools=TOOLS, streams_arguments=True)
    assert '{"name": "f", "description": "d", "parameters": {"type": "object"}}' in chat.text
    assert chat.answer is not None and chat.answer.calls is not None
    calls = chat.answer.calls
    assert (calls.format, calls.tools) == (FORMATS["hermes"], {"f", "g"})
    assert (calls.streams_arguments, calls.max_calls) == (True, None)
    one = await _lay_out(tools=TOOLS, parallel_tool_calls=False)
    assert one.answer is not None and one.answer.calls is not None
    assert one.answer.calls.max_calls == 1


async def test_tools_that_must_not_be_called_are_not_told_of() -> None:
    none = ToolChoice(ChoiceMode.NONE)
    assert await _lay_out(tools=TOOLS, tool_choice=none) == await _lay_out()


async def test_a_choice_that_requires_calls_makes_a_grammar_of_them() -> None:
    any_tool = await _lay_out(tools=TOOLS, tool_choice=ToolChoice(ChoiceMode.REQUIRED))
    named = await _lay_out(tools=TOOLS, tool_choice=NAMED)
    assert any_tool.text == named.text == (await _lay_out(tools=TOOLS)).text
    assert any_tool.structure is not None and named.structure is not None
    assert any_tool.structure.label == "tool_choice"
    assert '"g"' in any_tool.structure.output.text
    assert '"g"' not in named.structure.output.text
    assert "<[7]>" in named.structure.output.text
    assert named.answer is not None and named.answer.calls is not None
    assert named.answer.calls.tools == {"f"}


async def test_one_call_at_a_time_is_a_grammar_of_one() -> None:
    choice = ToolChoice(ChoiceMode.REQUIRED)
    one = await _lay_out(tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    more = await _lay_out(tools=TOOLS, tool_choice=choice)
    assert one.structure != more.structure
    assert (await _lay_out(tools=TOOLS)).structure is None


STRICT = (TOOLS[1], replace(TOOLS[0], strict=True))


async def test_strict_functions_hold_calls_to_a_grammar_and_leave_text_free() -> None:
    chat = await _lay_out(tools=STRICT)
    assert chat.structure is not None
    assert chat.structure.label == "tools[1].function.strict"
    assert [part.label for part in chat.structure.parts] == ["tools[1].function.parameters"]
    assert "TEXT" in chat.structure.output.text and "<[7]>" in chat.structure.output.text
    none = ToolChoice(ChoiceMode.NONE)
    assert (await _lay_out(tools=STRICT, tool_choice=none)).structure is None
    forced = await _lay_out(tools=STRICT, tool_choice=ToolChoice(ChoiceMode.REQUIRED))
    loose = (TOOLS[1], TOOLS[0])
    assert forced == await _lay_out(tools=loose, tool_choice=ToolChoice(ChoiceMode.REQUIRED))


async def test_many_strict_functions_are_not_tried_one_by_one() -> None:
    tools = tuple(Tool(f"f{index}", strict=True) for index in range(1000))
    chat = await _lay_out(tools=tools)
    assert chat.structure is not None
    assert (chat.structure.label, chat.structure.parts) == ("tools[0].function.strict", ())


async def test_strict_functions_need_marks_or_a_choice_that_forces_calls() -> None:
    settings = ChatSettings("llama3")
    error = await _refusal(tools=STRICT, settings=settings, path="chat.", function_holder="")
    assert isinstance(error, UnsupportedField)
    assert error.field == "chat.tools[1].strict"
    forced = await _lay_out(tools=STRICT, tool_choice=NAMED, settings=settings)
    assert forced.structure is not None


@pytest.mark.parametrize("source", ["<think>\n", "<think>\n\n</think>"])
async def test_a_forced_call_leaves_room_for_the_reasoning_that_may_come(source: str) -> None:
    settings = ChatSettings(reasoning_parser="qwen3")
    source = TEMPLATE + source
    chat = await _lay_out(tools=TOOLS, tool_choice=NAMED, settings=settings, source=source)
    assert chat.structure is not None
    assert ("thought" in chat.structure.output.text) == ("</think>" not in source)


EFFORT = "{{ messages | length }}"


@pytest.mark.parametrize(
    ("read", "effort", "text"),
    [
        ("{{ reasoning_effort }}", "high", "high"),
        ("{{ reasoning_effort }}", "none", "none"),
        ("{{ enable_thinking }}", "none", "False"),
        ("{{ thinking }}{{ reasoning_effort }}", "none", "Falsenone"),
        ("{{ thinking }}{{ reasoning_effort }}", "low", "low"),
    ],
)
async def test_an_effort_is_what_the_template_reads_of_it(
    read: str, effort: str, text: str
) -> None:
    chat = await _lay_out(source=EFFORT + read, reasoning_effort=effort)
    assert chat.text == f"1{text}"


@pytest.mark.parametrize(
    ("read", "fields", "kind"),
    [
        ("", {"reasoning_effort": "low"}, UnsupportedField),
        ("", {"reasoning_effort": "none"}, UnsupportedField),
        ("{{ enable_thinking }}", {"reasoning_effort": "low"}, UnsupportedField),
        ("{{ reasoning_effort }}", {"reasoning_effort": "much"}, InvalidArgument),
        (
            "{{ reasoning_effort }}",
            {"reasoning_effort": "low", "template_variables": {"reasoning_effort": "high"}},
            InvalidArgument,
        ),
    ],
)
async def test_an_effort_that_nothing_reads_is_named(
    read: str, fields: dict[str, Any], kind: type[InvalidArgument]
) -> None:
    error = await _refusal(source=EFFORT + read, path="chat.", **fields)
    assert type(error) is kind
    assert error.field == "chat.reasoning_effort"


@pytest.mark.parametrize(
    ("parser", "source", "problem"),
    [
        ("hermes", TEMPLATE, ""),
        ("auto", EFFORT, ""),
        ("none", EFFORT, ""),
        ("hermes", EFFORT, "the model's chat template has no place for tools"),
        ("hermes", None, "the model has no chat template"),
    ],
)
def test_a_parser_of_calls_that_no_template_brings_is_told_of(
    parser: str, source: str | None, problem: str
) -> None:
    templates = None if source is None else ChatTemplates(ChatTemplate(source, {}))
    assert tools_problem(ChatSettings(parser), templates) == problem


async def test_a_template_for_tools_is_used_with_tools() -> None:
    tool_use = "{{ tools | length }}<tool_call>"
    assert (await _lay_out(tools=TOOLS, tool_use=tool_use)).text == "2<tool_call>"
    assert (await _lay_out(tool_use=tool_use)).text == "<user>hi<assistant>"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": (Tool("a b"),)}, "tools[0].function.name"),
        ({"tools": (Tool("f"), Tool("f"))}, "tools[1].function.name"),
        ({"tools": (Tool("f", "\ud800"),)}, "tools[0].function.description"),
        ({"tools": (Tool("f", "d", {"type": "string"}),)}, "tools[0].function.parameters"),
        ({"tool_choice": NAMED}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": ToolChoice(ChoiceMode.REQUIRED, "x")}, "tool_choice"),
        ({"template_variables": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"template_variables": {"mood": ["\ud800"]}}, "chat_template_kwargs.mood[0]"),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message",
        ),
        ({"source": None}, "messages"),
    ],
)
async def test_what_cannot_be_is_named(fields: dict[str, Any], field: str) -> None:
    assert (await _refusal(**fields)).field == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": TOOLS, "settings": ChatSettings("none")}, "tools"),
        ({"tools": TOOLS, "source": "{{ tools }}"}, "tools"),
        ({"tools": TOOLS, "source": "<tool_call>"}, "tools"),
        ({"documents": ({"a": 1},), "source": "x"}, "documents"),
        ({"add_generation_prompt": False, "source": "x"}, "add_generation_prompt"),
        ({"template_variables": {"colour": 1}}, "chat_template_kwargs.colour"),
        ({"template": "x"}, "chat_template"),
        ({"include_reasoning": False}, "include_reasoning"),
    ],
)
async def test_what_is_not_honoured_is_named(fields: dict[str, Any], field: str) -> None:
    error = await _refusal(path="chat.", **fields)
    assert isinstance(error, UnsupportedField)
    assert error.field == f"chat.{field}"


async def test_variables_and_documents_reach_the_template() -> None:
    chat = await _lay_out(
        template_variables={"mood": "!"}, documents=({"t": 1},), add_generation_prompt=False
    )
    assert chat.text == '<user>hi[{"t": 1}]!'


async def test_a_clients_template_is_used_where_that_is_allowed() -> None:
    settings = ChatSettings(allows_templates=True)
    chat = await _lay_out(settings=settings, template="{{ bos_token }}{{ messages[0].content }}")
    assert chat.text == "<s>hi"


async def test_the_last_message_is_continued() -> None:
    start = ChatMessage("assistant", "Once upon ")
    chat = await _lay_out(HELLO, start, continue_final_message=True)
    assert chat.text == "<user>hi<assistant>Once upon "
    for source in ("{{ messages[0].content }}", "{{ messages[1].content[:3] }}"):
        error = await _refusal(HELLO, start, source=source, continue_final_message=True)
        assert error.field == "continue_final_message"
    error = await _refusal(CALLING, path="chat.", continue_final_message=True)
    assert error.field == "chat.continue_final_message"


@pytest.mark.parametrize(
    ("source", "stage"),
    [
        ("{{ messages }}<assistant>", Stage.OPENING),
        ("{{ messages }}<think>\n", Stage.REASONING),
        ("{{ messages }}<think>\n\n</think>\n\n", Stage.CONTENT),
    ],
)
async def test_the_prompt_says_where_reasoning_begins(source: str, stage: Stage) -> None:
    settings = ChatSettings(reasoning_parser="qwen3")
    answer = (await _lay_out(source=source, settings=settings, include_reasoning=False)).answer
    assert answer is not None
    assert (answer.reasoning, answer.shows_reasoning) == (stage, False)
    thinking = ChatMessage("assistant", "<think>So")
    chat = await _lay_out(HELLO, thinking, settings=settings, continue_final_message=True)
    assert chat.answer is not None and chat.answer.reasoning is Stage.REASONING
