"""Texts to token ids and back, for clients that count tokens before they ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspark.errors import InvalidArgument
from dspark.gateway.admission import Admission, check_in_vocabulary
from dspark.gateway.client_request import Prompt, TextPrompt
from dspark.gateway.scheduler_monitor import SchedulerMonitor
from dspark.gateway.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A prompt's tokens; ``token_strs`` spells them as the vocabulary does, if asked for."""

    token_ids: tuple[int, ...]
    max_model_len: int
    token_strs: tuple[str, ...] | None = None


class Tokenization:
    """Encodes prompts as requests with them are; decodes any tokens of the vocabulary."""

    def __init__(
        self, admission: Admission, tokenizer: TextTokenizer, monitor: SchedulerMonitor
    ) -> None:
        self._admission = admission
        self._tokenizer = tokenizer
        self._monitor = monitor

    async def tokenize(
        self,
        model: str | None,
        prompt: Prompt,
        *,
        add_special_tokens: bool = False,
        return_token_strs: bool = False,
    ) -> Tokenized:
        """Raises ContextLength for a text that is too long for any request, without encoding it."""
        self._admission.check_model(model)
        info = self._monitor.require_info()
        token_ids = await self._admission.encode(prompt)
        if add_special_tokens:
            if not isinstance(prompt, TextPrompt):
                problem = "must be false for messages: their template says which tokens there are"
                raise InvalidArgument("add_special_tokens", problem)
            token_ids = await self._tokenizer.encode_whole(prompt.text)
        return Tokenized(
            token_ids=token_ids,
            max_model_len=info.max_request_tokens,
            token_strs=self._spelled(token_ids) if return_token_strs else None,
        )

    async def detokenize(self, model: str | None, token_ids: Sequence[int], field: str) -> str:
        """``field`` is the client's name for the tokens; special ones become text too."""
        self._admission.check_model(model)
        vocab_size = self._monitor.require_info().vocab_size
        check_in_vocabulary(token_ids, vocab_size, field)
        return await self._tokenizer.decode_whole(token_ids)

    def _spelled(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._tokenizer.token(token_id) or "" for token_id in token_ids)
