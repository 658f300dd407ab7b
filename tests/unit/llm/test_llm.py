"""The life of an LLM, with a stand-in for its services."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from dspark.cli.failure import CliError
from dspark.client import Model
from dspark.llm import LLM, StartFailed
from dspark.llm import llm as module


class FakeServer:
    """Services that start at once; keeps how they were ended."""

    ends: list[str]
    problem = ""

    def __init__(self, config: Any, progress: Any) -> None:
        if self.problem:
            raise CliError(self.problem)
        self.client = SimpleNamespace(models=self._models)

    async def _models(self) -> tuple[Model, ...]:
        return (Model("tiny", 64, (), "strict"),)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(coroutine)

    def close(self) -> None:
        self.ends.append("closed")

    def close_soon(self) -> None:
        self.ends.append("dropped")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> type[FakeServer]:
    monkeypatch.setattr(FakeServer, "ends", [], raising=False)
    monkeypatch.setattr(module, "LocalServer", FakeServer)
    return FakeServer


def test_leaving_the_block_ends_the_services_once(server: type[FakeServer]) -> None:
    with LLM("tiny") as llm:
        assert (llm.model, llm.max_model_len) == ("tiny", 64)
    del llm
    gc.collect()
    assert server.ends == ["closed"]


def test_services_end_with_the_last_reference(server: type[FakeServer]) -> None:
    llm = LLM("tiny")
    assert not server.ends
    del llm
    gc.collect()
    assert server.ends == ["dropped"]


def test_what_keeps_services_from_starting_is_told_in_the_callers_words(
    server: type[FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "problem", "--max-model-len 9000: more than the model's 512")
    with pytest.raises(StartFailed, match=r"^max_model_len 9000: more than the model's 512$"):
        LLM("tiny")


def test_there_are_no_embeddings(server: type[FakeServer]) -> None:
    with LLM("tiny") as llm:
        assert not any(hasattr(llm, name) for name in ("encode", "embed", "classify", "score"))
        assert llm.generate([]) == []
