"""A request as a client states it, before defaults and limits. None means unset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dspark.gateway.text_assembly import TextOptions
from dspark.gateway.tool_choice import Tool, ToolChoice
from dspark.request_class import RequestClass
from dspark.sampling import SpeculationParams
from dspark.structured_output import StructuredOutput
from dspark.tool_calls import ToolCall


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Raw text; ``label`` is the client's name for it in errors."""

    text: str
    label: str = "prompt"


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Token ids, not yet checked against the vocabulary."""

    token_ids: tuple[int, ...]
    label: str = "prompt"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation; ``content`` may be None beside calls of tools."""

    role: str
    content: str | None
    name: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    # of a tool's answer: the call that it answers
    tool_call_id: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation, and how it is laid out and answered.

    ``name`` is the messages' own in errors, and the other names are of what they say;
    ``function_holder`` stands there before a tool's fields, and ``path`` before all names.
    """

    messages: tuple[ChatMessage, ...]
    name: str = "messages"
    path: str = ""
    tools_name: str = "tools"
    choice_name: str = "tool_choice"
    effort_name: str = "reasoning_effort"
    function_holder: str = "function."
    tools: tuple[Tool, ...] = ()
    # None means auto with tools, none without
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool = True
    # Whether the arguments of calls are streamed as they come; else each call comes whole.
    streams_arguments: bool = False
    # None means true, unless the last message is continued
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    template_variables: Mapping[str, Any] = field(default_factory=dict)
    documents: tuple[Mapping[str, Any], ...] = ()
    template: str = ""
    include_reasoning: bool = True
    # None leaves it to the template
    reasoning_effort: str | None = None

    @property
    def label(self) -> str:
        """The client's name for the messages in errors."""
        return self.path + self.name


Prompt = TextPrompt | TokenPrompt | ChatPrompt


@dataclass(frozen=True, slots=True)
class StructureWish:
    """What the text must be; ``label`` is the client's name for it in errors.

    ``parts`` are what it was made of, which may say better what is wrong with the whole.
    """

    output: StructuredOutput
    label: str
    parts: tuple[StructureWish, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """What a client asked for."""

    request_id: str
    prompt: Prompt
    model: str | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    # (token id, what is added to its logit)
    logit_bias: tuple[tuple[int, float], ...] = ()
    # token runs, and texts that are yet to be encoded
    bad_words: tuple[tuple[int, ...], ...] = ()
    bad_word_texts: tuple[str, ...] = ()
    allowed_token_ids: tuple[int, ...] = ()
    min_tokens: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    # whether the answers are ranked by their log-probabilities, told or not
    is_ranked: bool = False
    # whether the answer begins with the prompt
    echo: bool = False
    stop_strings: tuple[str, ...] = ()
    speculation: SpeculationParams = field(default_factory=SpeculationParams)
    cache_salt: str = ""
    priority: int = 0
    use_prefix_cache: bool | None = None
    request_class: RequestClass = RequestClass.INTERACTIVE
    user: str = ""
    structure: StructureWish | None = None
    text: TextOptions = field(default_factory=TextOptions)
