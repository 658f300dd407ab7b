"""Offline generation with services of one's own."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from dspark.cli.failure import CliError
from dspark.cli.models.known import DEFAULT_MODEL
from dspark.cli.progress import Progress
from dspark.client import ChatOptions
from dspark.llm.batch import run_batch
from dspark.llm.failure import StartFailed
from dspark.llm.local_server import LocalServer
from dspark.llm.outputs import RequestOutput
from dspark.llm.progress_bar import progress_bar
from dspark.llm.prompts import Messages, OnePrompt, conversations_of, params_of, prompts_of
from dspark.llm.request import OfflineRequest, ask
from dspark.llm.sampling_params import SamplingParams
from dspark.llm.settings import services_config, with_names

Params = SamplingParams | Sequence[SamplingParams] | None


class LLM:
    """A model with services of its own, for scripts and notebooks.

    ::

        from dspark.llm import LLM, SamplingParams

        with LLM(model="smollm2-135m-instruct", kv_tokens=8192) as llm:
            params = SamplingParams(temperature=0.8, max_tokens=32, seed=7)
            for output in llm.generate(["Once upon a time", "The sea"], params):
                print(output.prompt, output.outputs[0].text)

    ``model`` and ``settings`` are those of ``dspark serve``, with underscores. The services run
    until ``close``, and end with the object or the process where that is forgotten. The tokens are
    those that a server gives for the same prompt, parameters and seed. Threads may share it.

    Raises TypeError for an unknown setting, SettingError for a bad value, StartFailed if the
    services do not start; calls after ``close`` raise ClientClosed.
    """

    def __init__(self, model: str | os.PathLike[str] = DEFAULT_MODEL, **settings: Any) -> None:
        config = services_config(os.fspath(model), settings)
        try:
            self._server = LocalServer(config, Progress())
        except CliError as error:
            raise StartFailed(with_names(str(error))) from error
        self._finalizer = weakref.finalize(self, self._server.close_soon)
        # At the process's end no thread can be started; the server sees to that itself.
        self._finalizer.atexit = False
        (card,) = self._server.run(self._server.client.models())
        self.model = card.id
        self.max_model_len = card.max_model_len
        scheduler = config.scheduler(listen="", verifier=("unix:verifier",))
        self._max_choices = scheduler.max_num_seqs

    def generate(
        self,
        prompts: OnePrompt | Sequence[OnePrompt],
        sampling_params: Params = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Continue each prompt; the outputs come in the order of the prompts.

        A prompt is a text (special tokens are parsed, nothing is added), a list of token ids,
        ``{"prompt": text}`` or ``{"prompt_token_ids": ids}``. The parameters are for all, or a list
        with those of each. ``use_tqdm`` shows a bar where stderr is a terminal. The first prompt
        that fails raises PromptFailed, which has its ``index``; the others are cancelled.
        ::

            outputs = llm.generate("Once upon a time", SamplingParams(n=3))
            texts = [each.text for each in outputs[0].outputs]
        """
        texts = prompts_of(prompts)
        params = params_of(sampling_params, len(texts))
        return self._run(
            [OfflineRequest(*each) for each in zip(texts, params, strict=True)], use_tqdm
        )

    def chat(
        self,
        messages: Messages | Sequence[Messages],
        sampling_params: Params = None,
        use_tqdm: bool = True,
        **layout: Unpack[ChatOptions],
    ) -> list[RequestOutput]:
        """Answer each conversation, laid out by the model's chat template.

        ``layout`` has the options of the SDK for conversations, such as ``tools`` and
        ``chat_template_kwargs``. The rest is as in ``generate``.
        ::

            llm.chat([{"role": "user", "content": "Name three fruits."}])[0].outputs[0].text
        """
        chats = conversations_of(messages)
        params = params_of(sampling_params, len(chats))
        pairs = zip(chats, params, strict=True)
        return self._run([OfflineRequest(*each, layout) for each in pairs], use_tqdm)

    def close(self) -> None:
        """Cancel what runs and end the services, for good."""
        self._finalizer.detach()
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, requests: Sequence[OfflineRequest], shows_progress: bool) -> list[RequestOutput]:
        client, max_model_len = self._server.client, self.max_model_len
        with progress_bar(len(requests), shows_progress) as advance:
            return self._server.run(
                run_batch(
                    requests,
                    lambda request: ask(client, request, max_model_len),
                    self._max_choices,
                    advance,
                )
            )
