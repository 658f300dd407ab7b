"""From conversations to the text of their prompts, and to how their answers are told apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway.call_structure import call_structure
from dspark.gateway.chat_messages import check_messages
from dspark.gateway.chat_template import TemplateText
from dspark.gateway.client_request import ChatPrompt, StructureWish
from dspark.gateway.parsing import call_formats, reasoning_parsers
from dspark.gateway.parsing.answer_style import AnswerStyle, CallStyle
from dspark.gateway.parsing.think_tags import Stage
from dspark.gateway.parsing.thoughtful_structure import behind_thought
from dspark.gateway.template_arguments import template_arguments
from dspark.gateway.template_files import ChatTemplates
from dspark.gateway.template_renderer import Renderer
from dspark.gateway.tool_choice import (
    ChoiceMode,
    Tool,
    callable_tools,
    check_tools,
    settled_choice,
)
from dspark.gateway.unicode_text import LONE_SURROGATE, is_text
from dspark.grammars.refusal import GrammarRefused


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """What the server is told of its model, and whether it trusts its clients' templates."""

    tool_parser: str = call_formats.AUTO
    reasoning_parser: str = reasoning_parsers.NONE
    allows_templates: bool = False


@dataclass(frozen=True, slots=True)
class LaidOutChat:
    """A prompt's text; ``answer`` is None where all of the answer is content.

    ``structure`` is what the answer has to be, if tools must be called or strict ones may be.
    """

    text: str
    answer: AnswerStyle | None
    structure: StructureWish | None = None


class Vocabulary(Protocol):
    """What the model has tokens for."""

    def has_token(self, token: str) -> bool: ...

    def special_id(self, token: str) -> int | None:
        """The id of a special token; None for any other text."""
        ...


def tools_problem(settings: ChatSettings, templates: ChatTemplates | None) -> str:
    """Why a parser of calls that was asked for will have none to parse; empty where it may."""
    if settings.tool_parser in (call_formats.AUTO, call_formats.NONE):
        return ""
    if templates is None:
        return "the model has no chat template"
    reads_tools = "tools" in templates.for_tools(True).text.variables
    return "" if reads_tools else "the model's chat template has no place for tools"


class ChatPrompts:
    """Checks and lays out conversations; every refusal is an InvalidArgument naming the field."""

    def __init__(
        self,
        templates: ChatTemplates | None,
        renderer: Renderer,
        settings: ChatSettings,
        vocabulary: Vocabulary,
    ) -> None:
        self._templates = templates
        self._renderer = renderer
        self._settings = settings
        self._vocabulary = vocabulary

    async def lay_out(self, prompt: ChatPrompt) -> LaidOutChat:
        check_messages(prompt.messages, prompt.label)
        tools_path = f"{prompt.path}{prompt.tools_name}"
        check_tools(prompt.tools, tools_path, prompt.function_holder)
        choice_path = f"{prompt.path}{prompt.choice_name}"
        choice = settled_choice(prompt.tool_choice, prompt.tools, choice_path)
        # What must not be called is not told of either.
        tools = () if choice.mode is ChoiceMode.NONE else prompt.tools
        template = await self._template(prompt, bool(tools))
        format_name = self._format_name(prompt, template) if tools else ""
        text = await self._render(prompt, template, tools)
        callable_ = callable_tools(choice, tools)
        reasoning = self._reasoning(prompt, text)
        calls = _call_style(prompt, format_name, callable_) if callable_ else None
        answer = None
        if calls is not None or reasoning is not None:
            answer = AnswerStyle(calls, reasoning, prompt.include_reasoning)
        special_id = self._vocabulary.special_id
        structure = call_structure(prompt, choice, callable_, format_name, reasoning, special_id)
        return LaidOutChat(text, answer, structure)

    async def behind_thought(self, wish: StructureWish, answer: AnswerStyle) -> StructureWish:
        """As the answer has to be, which may have reasoning before what its client wishes."""
        if answer.reasoning in (None, Stage.CONTENT):
            return wish
        special_id = self._vocabulary.special_id
        try:
            whole = await asyncio.to_thread(
                behind_thought, wish.output, answer.reasoning, special_id
            )
        except GrammarRefused as error:
            raise InvalidArgument(wish.label, str(error)) from None
        return StructureWish(whole, wish.label, (wish,))

    async def _template(self, prompt: ChatPrompt, has_tools: bool) -> TemplateText:
        if prompt.template:
            if not self._settings.allows_templates:
                problem = "is not allowed by this server"
                raise UnsupportedField(f"{prompt.path}chat_template", problem)
            tokens = {} if self._templates is None else self._templates.default.text.tokens
            with _fields_of(prompt):
                return await self._renderer.read(prompt.template, tokens)
        if self._templates is None:
            problem = "this model has no chat template; use a text prompt instead"
            raise InvalidArgument(prompt.label, problem)
        return self._templates.for_tools(has_tools).text

    def _format_name(self, prompt: ChatPrompt, template: TemplateText) -> str:
        name = call_formats.format_name(
            self._settings.tool_parser, template.source, self._vocabulary.has_token
        )
        if name not in call_formats.FORMATS:
            problem = "are not supported: this model's format of tool calls is not known here"
            raise UnsupportedField(f"{prompt.path}{prompt.tools_name}", problem)
        return name

    async def _render(
        self, prompt: ChatPrompt, template: TemplateText, tools: Sequence[Tool]
    ) -> str:
        arguments = template_arguments(prompt, template, tools)
        with _fields_of(prompt):
            text = await self._renderer.render(template, arguments)
        if not is_text(text):
            raise InvalidArgument(prompt.label, f"the text of the prompt {LONE_SURROGATE}")
        return text

    def _reasoning(self, prompt: ChatPrompt, text: str) -> Stage | None:
        parser = reasoning_parsers.PARSERS.get(self._settings.reasoning_parser)
        if parser is None:
            if not prompt.include_reasoning:
                problem = "cannot be false: this server does not tell reasoning from text"
                raise UnsupportedField(f"{prompt.path}include_reasoning", problem)
            return None
        if prompt.continue_final_message:
            return parser.start(reasoning_parsers.open_within(prompt.messages[-1].content or ""))
        return parser.start(reasoning_parsers.open_at_end(text))


def _call_style(prompt: ChatPrompt, format_name: str, tools: Sequence[Tool]) -> CallStyle:
    return CallStyle(
        call_formats.FORMATS[format_name],
        frozenset(tool.name for tool in tools),
        streams_arguments=prompt.streams_arguments,
        max_calls=None if prompt.parallel_tool_calls else 1,
    )


@contextmanager
def _fields_of(prompt: ChatPrompt) -> Iterator[None]:
    """Errors name fields as the prompt's client does."""
    try:
        yield
    except InvalidArgument as error:
        field = prompt.name if error.field == "messages" else error.field
        error.renamed(prompt.path + field)
        raise
