"""Templates run in a process of their own, which ends those that do not end by themselves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dspark.errors import InternalError, InvalidArgument
from dspark.gateway import template_process
from dspark.gateway.chat_template import ChatTemplate
from dspark.gateway.template_process import WORKER, TemplateLimits
from dspark.gateway.template_renderer import ProcessRenderer
from dspark.gateway.worker_starts import MAX_STARTS

MESSAGES = [{"role": "user", "content": "1 < 2 & ü"}]
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
LIMITS = TemplateLimits(seconds=1.0, max_chars=10_000)


@pytest.fixture
async def renderer() -> AsyncIterator[ProcessRenderer]:
    made = ProcessRenderer(LIMITS)
    yield made
    made.close()


async def _render(renderer: ProcessRenderer, source: str, **arguments: Any) -> str:
    # A client's template is never compiled here.
    text = await renderer.read(source, {"bos_token": "<s>"})
    return await renderer.render(text, {"messages": MESSAGES, **arguments})


async def test_it_renders_as_the_template_does(renderer: ProcessRenderer) -> None:
    source = (
        "{{ bos_token }}{{ messages | tojson }}{{ x }}{% if add_generation_prompt %}!{% endif %}"
    )
    template = ChatTemplate(source, {"bos_token": "<s>"})
    expected = template.render(MESSAGES, variables={"x": [1]})
    arguments = {"messages": MESSAGES, "variables": {"x": [1]}}
    for _ in range(2):
        assert await renderer.render(template.text, arguments) == expected
    read = await renderer.read(source, {"bos_token": "<s>"})
    assert read == template.text
    assert read.variables == {"bos_token", "messages", "x", "add_generation_prompt"}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ raise_exception('no system role') }}", "no system role"),
        ("{{ messages[7].role }}", "no element 7"),
        (ENDLESS, "takes longer than 1 seconds"),
        ("{{ 'x' * (10 ** (messages | length + 10)) }}", "refuses|memory"),
        ("{% for i in range(99999) %}xxxx{% endfor %}", "more than 10000 characters"),
        ("{{ 9 ** (9 ** (9 ** messages | length)) }}", "takes longer"),
    ],
)
async def test_what_fails_is_the_conversations_error(
    renderer: ProcessRenderer, source: str, problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem) as caught:
        await _render(renderer, source)
    assert caught.value.field == "messages"
    assert await _render(renderer, "ok") == "ok"


@pytest.mark.parametrize("source", ["{% if %}", "{{ '", "{% for %}" * 9])
async def test_a_broken_template_is_named(renderer: ProcessRenderer, source: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await _render(renderer, source)
    assert caught.value.field == "chat_template"


async def test_a_constant_that_never_ends_is_not_compiled_here(renderer: ProcessRenderer) -> None:
    with pytest.raises(InvalidArgument, match="takes longer"):
        await _render(renderer, "{{ 9 ** (9 ** (9 ** 9)) }}")


async def test_endless_templates_leave_room_for_others(renderer: ProcessRenderer) -> None:
    hung = [asyncio.create_task(_render(renderer, ENDLESS)) for _ in range(3)]
    assert await _render(renderer, "ok") == "ok"
    errors = await asyncio.gather(*hung, return_exceptions=True)
    assert all(isinstance(error, InvalidArgument) for error in errors)


async def test_what_is_nested_too_deeply_is_refused(renderer: ProcessRenderer) -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        await _render(renderer, "{{ x }}", variables={"x": value})


def _worker_that_dies(folder: Path, times: int) -> None:
    """A module that ends by a signal so many times before it is the worker."""
    (folder / "frail_worker.py").write_text(
        "import os, pathlib, runpy, signal\n"
        f"starts = pathlib.Path({str(folder / 'starts')!r})\n"
        "with starts.open('a') as log:\n"
        "    log.write('.')\n"
        f"if starts.stat().st_size <= {times}:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"runpy.run_module({WORKER!r}, run_name='__main__')\n"
    )


@pytest.mark.parametrize("times", [1, MAX_STARTS - 1, MAX_STARTS])
async def test_a_process_that_dies_as_it_starts_is_no_fault_of_the_template(
    renderer: ProcessRenderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    _worker_that_dies(tmp_path, times)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(template_process, "WORKER", "frail_worker")
    if times < MAX_STARTS:
        assert await _render(renderer, "{{ messages[0].content }}") == "1 < 2 & ü"
        return
    with pytest.raises(InternalError):
        await _render(renderer, "{{ messages[0].content }}")
    # The next conversation tries again.
    assert await _render(renderer, "{{ messages[0].content }}") == "1 < 2 & ü"
