"""Answers of the OpenAI surface, as tests compare them."""

from __future__ import annotations

from typing import Any


class Reply:
    """A successful answer; ``base`` is the one to a request without the field in question."""

    def __init__(self, body: dict[str, Any], base: Reply | None = None) -> None:
        self.body = body
        self.choice = body["choices"][0]
        self.base = base or self

    @property
    def ids(self) -> list[int]:
        return list(self.choice["token_ids"])

    @property
    def text(self) -> str:
        choice = self.choice
        return str(choice["text"] if "text" in choice else choice["message"]["content"])

    @property
    def prompt_ids(self) -> list[int]:
        return list(self.body["prompt_token_ids"])

    @property
    def cached(self) -> int:
        return int(self.body["usage"]["prompt_tokens_details"]["cached_tokens"])

    @property
    def told(self) -> Any:
        """What must not depend on speculation."""
        changing = ("speculation", "usage", "seed")
        return [{k: v for k, v in c.items() if k not in changing} for c in self.body["choices"]]


class Response(Reply):
    """As the Responses API tells it: token ids are told as text alone, a byte each."""

    def __init__(self, body: dict[str, Any], base: Reply | None = None) -> None:
        parts = [part for item in body["output"] for part in item["content"]]
        self._text = "".join(part["text"] for part in parts)
        ids = list(self._text.encode())
        finish = "stop" if body["status"] == "completed" else "length"
        choice = {"text": self._text, "token_ids": ids, "finish_reason": finish}
        super().__init__({**body, "choices": [choice]}, base)

    @property
    def num_prompt_tokens(self) -> int:
        return int(self.body["usage"]["input_tokens"])

    @property
    def num_tokens(self) -> int:
        return int(self.body["usage"]["output_tokens"])

    @property
    def cached(self) -> int:
        return int(self.body["usage"]["input_tokens_details"]["cached_tokens"])
