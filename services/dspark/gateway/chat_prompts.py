"""From conversations to the text of their prompts, and to how their answers are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from dspark.errors import InvalidArgument, UnsupportedField
from dspark.gateway.chat_messages import check_messages
from dspark.gateway.chat_template import TemplateText
from dspark.gateway.client_request import ChatPrompt, StructureWish
from dspark.gateway.parsing import call_formats, reasoning_parsers
from dspark.gateway.parsing.answer_style import AnswerStyle, CallStyle
from dspark.gateway.parsing.think_tags import Stage
from dspark.gateway.parsing.tool_grammar import required_calls
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
from dspark.structured_output import StructuredOutput


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """What the server is told of its model, and whether it trusts its clients' templates."""

    tool_parser: str = call_formats.AUTO
    reasoning_parser: str = reasoning_parsers.NONE
    allows_templates: bool = False


@dataclass(frozen=True, slots=True)
class LaidOutChat:
    """A prompt's text; ``answer`` is None where all of the answer is content.

    ``structure`` is what the answer has to be, if tools must be called.
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
        check_tools(prompt.tools, f"{prompt.path}tools")
        choice = settled_choice(prompt.tool_choice, prompt.tools, f"{prompt.path}tool_choice")
        # What must not be called is not told of either.
        tools = () if choice.mode is ChoiceMode.NONE else prompt.tools
        template = await self._template(prompt, bool(tools))
        format_name = self._format_name(prompt, template) if tools else ""
        text = await self._render(prompt, template, tools)
        callable_ = callable_tools(choice, tools)
        answer = self._answer(prompt, text, format_name, callable_)
        structure = None
        if choice.mode is ChoiceMode.REQUIRED:
            structure = self._structure(prompt, format_name, callable_)
        return LaidOutChat(text, answer, structure)

    def _answer(
        self, prompt: ChatPrompt, text: str, format_name: str, tools: Sequence[Tool]
    ) -> AnswerStyle | None:
        calls = _call_style(prompt, format_name, tools) if tools else None
        reasoning = self._reasoning(prompt, text)
        if calls is None and reasoning is None:
            return None
        return AnswerStyle(calls, reasoning, prompt.include_reasoning)

    def _structure(
        self, prompt: ChatPrompt, format_name: str, tools: Sequence[Tool]
    ) -> StructureWish:
        grammar = required_calls(
            format_name,
            tools,
            allows_several=prompt.parallel_tool_calls,
            special_id=self._vocabulary.special_id,
        )
        return StructureWish(StructuredOutput.grammar(grammar), f"{prompt.path}tool_choice")

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
            raise UnsupportedField(f"{prompt.path}tools", problem)
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
