"""What a completion gives: the events of a stream, and the whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspark.sampling import FinishReason, SpeculationStats, StepBreakdown, Usage
from dspark.tool_calls import ToolCall, ToolCallDelta


@dataclass(frozen=True, slots=True)
class Started:
    """Opens a stream; ``seed`` is the one in use, given or drawn."""

    request_id: str
    model: str
    prompt_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """One of the most likely tokens; ``logprob`` is minus infinity if it could not be drawn."""

    token_id: int
    logprob: float
    data: bytes


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """How likely a token was: ``rank`` is 1 for the most likely one.

    ``data`` are the bytes that the token stands for, maybe a part of a character. ``top`` has the
    most likely tokens in its place, as many as were asked for.
    """

    token_id: int
    logprob: float
    rank: int
    data: bytes
    top: tuple[TopLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """New tokens of one step; ``num_accepted`` of them came from candidates.

    ``text`` never ends inside a character, so it may be empty while one is incomplete. It has
    neither ``reasoning`` nor ``tool_calls``. ``logprobs`` has an entry for each token if they were
    asked for; the first chunk has ``prompt_logprobs``.
    """

    text: str
    token_ids: tuple[int, ...]
    num_accepted: int
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """Ends a stream; ``stop_reason`` is the stop string or stop token id, else None.

    ``calls_tools`` says that the answer ended by itself with calls of tools; ``reasoning_tokens``
    is None where the server does not tell reasoning from text.
    """

    finish_reason: FinishReason
    stop_reason: str | int | None = None
    usage: Usage = field(default_factory=Usage)
    speculation: SpeculationStats = field(default_factory=SpeculationStats)
    steps: StepBreakdown = field(default_factory=StepBreakdown)
    calls_tools: bool = False
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished completion. Times are wall times seen by this client, in milliseconds.

    ``ttft_ms`` runs from the call to the first tokens, ``itl_ms`` has the gap before each later
    chunk (a chunk has all tokens of one step), ``elapsed_ms`` runs to the end of the stream.
    ``logprobs`` has an entry for each token, ``prompt_logprobs`` one for each of the prompt but the
    first; each is empty unless asked for.
    """

    request_id: str
    model: str
    seed: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stop_reason: str | int | None
    usage: Usage
    speculation: SpeculationStats
    steps: StepBreakdown
    ttft_ms: float
    itl_ms: tuple[float, ...]
    elapsed_ms: float
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    calls_tools: bool = False
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A served model; ``exactness`` is "strict" or "fast"."""

    id: str
    max_model_len: int
    sources: tuple[str, ...]
    exactness: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """A prompt's tokens; ``spellings`` are those of the vocabulary, if asked for."""

    token_ids: tuple[int, ...]
    max_model_len: int
    spellings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What the scheduler counts: requests, KV blocks, and prompt tokens since its start."""

    num_running: int
    num_waiting: int
    num_blocks: int
    num_free_blocks: int
    block_size: int
    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Status:
    """How a server is; ``engine`` is None while its scheduler does not answer.

    ``problem`` says why requests are not served, and is empty while they are.
    """

    version: str
    is_ready: bool
    problem: str
    num_answering: int
    engine: EngineStatus | None
