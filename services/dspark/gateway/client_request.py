"""A request as a client states it, before defaults and limits. None means unset."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspark.request_class import RequestClass
from dspark.sampling import SpeculationParams
from dspark.structured_output import StructuredOutput


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
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation."""

    messages: tuple[ChatMessage, ...]
    label: str = "messages"


Prompt = TextPrompt | TokenPrompt | ChatPrompt


@dataclass(frozen=True, slots=True)
class StructureWish:
    """What the text must be; ``label`` is the client's name for it in errors."""

    output: StructuredOutput
    label: str


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
