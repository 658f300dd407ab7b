"""Client requests to generation requests: prompts to token ids, defaults, limits; no queue yet."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from dspark.errors import ContextLength, InvalidArgument, ModelNotFound
from dspark.gateway.bad_words import TokenRun, bad_word_runs, check_bad_words
from dspark.gateway.caller import current_caller
from dspark.gateway.chat_prompts import ChatPrompts
from dspark.gateway.client_request import (
    ChatPrompt,
    ClientRequest,
    Prompt,
    StructureWish,
    TextPrompt,
    TokenPrompt,
)
from dspark.gateway.config import GatewayConfig
from dspark.gateway.grammar_checker import GrammarChecker
from dspark.gateway.parsing.answer_style import AnswerStyle
from dspark.gateway.scheduler_monitor import SchedulerMonitor
from dspark.gateway.shortened import shortened
from dspark.gateway.token_source import GenerationRequest, SchedulerInfo
from dspark.gateway.tokenizer import INLINE_CHARS, TextTokenizer
from dspark.sampling import SamplingParams, SpeculationParams
from dspark.sampling_limits import check_leaves_tokens

DEFAULT_MAX_TOKENS = 16
MAX_CACHE_SALT_CHARS = 1024
# What uint32 and sint32 fields of the contract can hold.
MAX_UINT32 = 2**32 - 1
MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request ready to run, and the model it was checked against."""

    request: GenerationRequest
    info: SchedulerInfo


class _LaidOutPrompt(NamedTuple):
    """A prompt's tokens, and what a conversation makes of the answer."""

    token_ids: tuple[int, ...]
    answer: AnswerStyle | None = None
    structure: StructureWish | None = None


class Admission:
    """Checks and completes client requests. Every refusal is a DSparkError that names the field."""

    def __init__(
        self,
        config: GatewayConfig,
        tokenizer: TextTokenizer,
        chats: ChatPrompts,
        monitor: SchedulerMonitor,
        grammars: GrammarChecker,
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._chats = chats
        self._monitor = monitor
        self._grammars = grammars
        # The prompts of a request have the same bad words.
        self._runs_of = lru_cache(maxsize=16)(self._bad_word_runs)

    def check_model(self, model: str | None) -> None:
        """Raises ModelNotFound for another model than the served one."""
        if model is not None and model != self._config.model_name:
            raise ModelNotFound(shortened(model), self._config.model_name)

    async def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """The token ids of a prompt as it would be admitted, whether or not they fit."""
        limit = self._monitor.require_info().max_request_tokens
        return (await self._laid_out(prompt, limit)).token_ids

    async def admit(self, client: ClientRequest) -> Admitted:
        self.check_model(client.model)
        self._check_stop_strings(client.stop_strings)
        check_bad_words(client.bad_word_texts)
        self._check_speculation(client.speculation)
        self._check_options(client)
        info = self._monitor.require_info()
        prompt = await self._laid_out(client.prompt, info.max_request_tokens)
        token_ids = prompt.token_ids
        self._check_token_ids(token_ids, client.prompt, info)
        max_tokens = _max_tokens(client, len(token_ids), info)
        structure = await self._structure(client.structure, prompt)
        sampling = _sampling(client, max_tokens, await self._bad_words(client), structure)
        sampling.validate(info.vocab_size)
        check_leaves_tokens(sampling, info.eos_token_ids, info.vocab_size)
        if structure is not None:
            await self._check_structure(structure)
        request = GenerationRequest(
            request_id=client.request_id,
            prompt_token_ids=token_ids,
            sampling=sampling,
            stop_strings=client.stop_strings,
            speculation=client.speculation,
            cache_salt=current_caller().cache_salt(client.cache_salt),
            priority=client.priority,
            use_prefix_cache=client.use_prefix_cache is not False,
            request_class=client.request_class,
            tenant=current_caller().share_of(client.user),
            text=client.text,
            answer=prompt.answer,
        )
        return Admitted(request, info)

    async def _bad_words(self, client: ClientRequest) -> tuple[TokenRun, ...]:
        texts = client.bad_word_texts
        if sum(map(len, texts)) <= INLINE_CHARS:
            return client.bad_words + self._runs_of(texts)
        return client.bad_words + await asyncio.to_thread(self._runs_of, texts)

    def _bad_word_runs(self, texts: tuple[str, ...]) -> tuple[TokenRun, ...]:
        return bad_word_runs(texts, self._tokenizer.encode_now)

    async def _laid_out(self, prompt: Prompt, limit: int) -> _LaidOutPrompt:
        match prompt:
            case TokenPrompt(token_ids, _):
                return _LaidOutPrompt(token_ids)
            case TextPrompt("", _):
                return _LaidOutPrompt(self._tokenizer.encode_nothing())
            case TextPrompt(text, _):
                return _LaidOutPrompt(await self._encode(text, prompt.label, limit))
            case ChatPrompt():
                chat = await self._chats.lay_out(prompt)
                token_ids = await self._encode(chat.text, prompt.label, limit)
                return _LaidOutPrompt(token_ids, chat.answer, chat.structure)

    async def _encode(self, text: str, label: str, limit: int) -> tuple[int, ...]:
        # Encoding megabytes takes many seconds, so what cannot fit is refused before.
        least = self._tokenizer.least_tokens(text)
        if least >= limit:
            raise _too_long(label, f"at least {least}", limit, least)
        return await self._tokenizer.encode(text)

    def _check_token_ids(
        self, token_ids: tuple[int, ...], prompt: Prompt, info: SchedulerInfo
    ) -> None:
        if not token_ids:
            raise InvalidArgument(prompt.label, "is empty: it must hold at least one token")
        limit = info.max_request_tokens
        if len(token_ids) >= limit:
            raise _too_long(prompt.label, str(len(token_ids)), limit, len(token_ids))
        if isinstance(prompt, TokenPrompt):
            check_in_vocabulary(token_ids, info.vocab_size, prompt.label)

    def _check_stop_strings(self, stop_strings: tuple[str, ...]) -> None:
        if len(stop_strings) > self._config.max_stop_strings:
            raise InvalidArgument(
                "stop",
                f"has {len(stop_strings)} strings; the limit is {self._config.max_stop_strings}",
            )
        for stop in stop_strings:
            if not stop:
                raise InvalidArgument("stop", "a stop string must not be empty")
            if len(stop) > self._config.max_stop_string_chars:
                limit = self._config.max_stop_string_chars
                raise InvalidArgument("stop", f"a stop string may have at most {limit} characters")

    async def _structure(
        self, wished: StructureWish | None, prompt: _LaidOutPrompt
    ) -> StructureWish | None:
        """What the client wishes for, or the conversation's tools force."""
        wish = _one_structure(wished, prompt.structure)
        if wish is None:
            return None
        size, limit = wish.output.num_chars, self._config.max_grammar_chars
        if size > limit:
            raise InvalidArgument(wish.label, f"has {size} characters; the limit is {limit}")
        if wish is prompt.structure or prompt.answer is None:
            return wish
        return await self._chats.behind_thought(wish, prompt.answer)

    async def _check_structure(self, wish: StructureWish) -> None:
        if problem := await self._grammars.problem_of(wish.output):
            for part in wish.parts:
                if reason := await self._grammars.problem_of(part.output):
                    raise InvalidArgument(part.label, reason)
            raise InvalidArgument(wish.label, problem)

    def _check_speculation(self, speculation: SpeculationParams) -> None:
        known = self._monitor.known_sources
        unknown = [name for name in speculation.sources if name not in known]
        if unknown and known:
            names = ", ".join(sorted(known))
            raise InvalidArgument(
                "speculation.sources",
                f"{shortened(unknown[0])!r} is not a source here; known: {names}",
            )
        _check_range("speculation.max_draft_tokens", speculation.max_draft_tokens, 0, MAX_UINT32)

    def _check_options(self, client: ClientRequest) -> None:
        _check_range("priority", client.priority, -MAX_INT32 - 1, MAX_INT32)
        _check_range("top_k", client.top_k, -1, MAX_UINT32)
        _check_range("min_tokens", client.min_tokens, 0, MAX_UINT32)
        if len(client.cache_salt) > MAX_CACHE_SALT_CHARS:
            raise InvalidArgument(
                "cache_salt", f"may have at most {MAX_CACHE_SALT_CHARS} characters"
            )


def check_in_vocabulary(token_ids: Sequence[int], vocab_size: int, label: str) -> None:
    """Raises InvalidArgument that names the ``label`` and a token id that is none."""
    for token_id in (min(token_ids, default=0), max(token_ids, default=0)):
        if not 0 <= token_id < vocab_size:
            given = shortened(str(token_id))
            problem = f"token id {given} is not in 0 to {vocab_size - 1}"
            raise InvalidArgument(label, problem)


def _too_long(label: str, count: str, limit: int, given: int) -> ContextLength:
    problem = (
        f"has {count} tokens, but at most {limit - 1} fit: "
        f"the context is {limit} tokens and at least one is generated"
    )
    return ContextLength(label, problem, limit=limit, given=given)


def _check_range(field: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise InvalidArgument(field, f"must be from {low} to {high}")


def _max_tokens(client: ClientRequest, num_prompt_tokens: int, info: SchedulerInfo) -> int:
    limit = info.max_request_tokens
    room = limit - num_prompt_tokens
    if client.max_tokens is None:
        return room if isinstance(client.prompt, ChatPrompt) else min(DEFAULT_MAX_TOKENS, room)
    if client.max_tokens > room:
        given = min(num_prompt_tokens + client.max_tokens, MAX_UINT32)
        problem = (
            f"{shortened(str(client.max_tokens))} and the prompt's {num_prompt_tokens} tokens "
            f"do not fit: the context is {limit} tokens"
        )
        raise ContextLength("max_tokens", problem, limit=limit, given=given)
    return client.max_tokens


def _one_structure(
    wished: StructureWish | None, forced: StructureWish | None
) -> StructureWish | None:
    if wished is not None and forced is not None:
        problem = f"cannot go with {forced.label}: a text has one structure"
        raise InvalidArgument(wished.label, problem)
    return wished or forced


def _sampling(
    client: ClientRequest,
    max_tokens: int,
    bad_words: tuple[tuple[int, ...], ...],
    structure: StructureWish | None,
) -> SamplingParams:
    stated = {
        "repetition_penalty": client.repetition_penalty,
        "presence_penalty": client.presence_penalty,
        "frequency_penalty": client.frequency_penalty,
        "min_tokens": client.min_tokens,
        "temperature": client.temperature,
        "top_p": client.top_p,
        "min_p": client.min_p,
        "ignore_eos": client.ignore_eos,
        "top_k": 0 if client.top_k == -1 else client.top_k,
    }
    return SamplingParams(
        seed=secrets.randbits(63) if client.seed is None else client.seed,
        max_tokens=max_tokens,
        stop_token_ids=frozenset(client.stop_token_ids),
        logit_bias=client.logit_bias,
        bad_words=bad_words,
        allowed_token_ids=frozenset(client.allowed_token_ids),
        logprobs=0 if client.is_ranked and client.logprobs is None else client.logprobs,
        prompt_logprobs=_prompt_logprobs(client),
        structured=None if structure is None else structure.output,
        **{name: value for name, value in stated.items() if value is not None},  # type: ignore[arg-type]
    )


def _prompt_logprobs(client: ClientRequest) -> int | None:
    """What the prompt is asked for by itself, and as the beginning of the answer."""
    asked = [client.prompt_logprobs, client.logprobs if client.echo else None]
    return max((count for count in asked if count is not None), default=None)
