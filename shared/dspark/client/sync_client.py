"""The client, sync: the async one on a background event loop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self, Unpack

from dspark.client.async_client import DEFAULT_TARGET, AsyncClient, AsyncStream
from dspark.client.closed import ClientClosed
from dspark.client.event_loop import BackgroundLoop
from dspark.client.options import ChatOptions, GenerateOptions, Prompt
from dspark.client.results import Chunk, Completion, Model, Started, Status, Tokens
from dspark.transport_security.tls_files import TlsFiles


class Stream(Iterator[Chunk]):
    """The chunks of one completion; leaving it (``with``, ``close``, ``break``) cancels it."""

    def __init__(self, stream: AsyncStream, loop: BackgroundLoop) -> None:
        self._stream = stream
        self._loop = loop

    @property
    def started(self) -> Started | None:
        return self._stream.started

    @property
    def completion(self) -> Completion:
        """The whole completion; raises InternalError before the iteration has ended by itself."""
        return self._stream.completion

    def __next__(self) -> Chunk:
        chunk = self._loop.run(anext_or_none(self._stream))
        if chunk is None:
            raise StopIteration
        return chunk

    def close(self) -> None:
        """Cancel the request unless it has finished."""
        with contextlib.suppress(ClientClosed):
            self._loop.run(self._stream.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


async def anext_or_none(stream: AsyncStream) -> Chunk | None:
    """StopAsyncIteration cannot cross a future."""
    return await anext(stream, None)


class Client:
    """An AsyncClient for code that is not async; threads may share it.

    ::

        with Client() as client:
            print(client.generate("Once", max_tokens=32).text)
            for chunk in client.stream([{"role": "user", "content": "Hi"}]):
                print(chunk.text, end="")

    Failed calls raise a ``dspark.errors`` class, calls after ``close`` ClientClosed.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        api_key: str | None = None,
        tls: TlsFiles | bool | None = None,
    ) -> None:
        self._client = AsyncClient(target, api_key=api_key, tls=tls)
        self._loop = BackgroundLoop.acquire()
        self._is_open = True

    @property
    def target(self) -> str:
        return self._client.target

    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Stream:
        """Start a completion and iterate over its chunks."""

        async def start() -> AsyncStream:
            return self._client.stream(prompt, **options)

        return Stream(self._loop.run(start()), self._loop)

    def generate(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Completion:
        """Run a completion to its end."""
        return self._loop.run(self._client.generate(prompt, **options))

    def generate_choices(
        self, prompt: Prompt, n: int, **options: Unpack[GenerateOptions]
    ) -> tuple[Completion, ...]:
        """``n`` completions of one prompt, each with a seed of its own; the first has the given."""
        return self._loop.run(self._client.generate_choices(prompt, n, **options))

    def tokenize(
        self,
        prompt: Prompt,
        *,
        add_special_tokens: bool = False,
        return_spellings: bool = False,
        timeout: float | None = None,
        **layout: Unpack[ChatOptions],
    ) -> Tokens:
        """The tokens of a text or of chat messages, as ``generate`` counts them."""
        return self._loop.run(
            self._client.tokenize(
                prompt,
                add_special_tokens=add_special_tokens,
                return_spellings=return_spellings,
                timeout=timeout,
                **layout,
            )
        )

    def detokenize(self, token_ids: Sequence[int], timeout: float | None = None) -> str:
        """The text of tokens, in which special tokens are text too."""
        return self._loop.run(self._client.detokenize(token_ids, timeout))

    def status(self, timeout: float | None = None) -> Status:
        """Whether requests are served, and how much runs and waits."""
        return self._loop.run(self._client.status(timeout))

    def models(self, timeout: float | None = None) -> tuple[Model, ...]:
        """The served models."""
        return self._loop.run(self._client.models(timeout))

    def is_ready(self, timeout: float | None = 1.0) -> bool:
        """Whether the gateway answers and serves requests now."""
        return self._loop.run(self._client.is_ready(timeout))

    def close(self) -> None:
        """Cancel what runs and close the connection, for good."""
        if self._is_open:
            self._is_open = False
            self._loop.run(self._client.close())
            self._loop.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
