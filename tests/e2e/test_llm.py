"""An offline LLM with services of its own: its answers are a server's, and they end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from dspark.client import Client, ClientClosed
from dspark.llm import (
    LLM,
    PromptFailed,
    RequestOutput,
    SamplingParams,
    StartFailed,
    StructuredOutputsParams,
)
from dspark.sampling import SpeculationParams
from harness.processes import is_running, own_children, wait_until
from harness.served import SERVICES

pytestmark = pytest.mark.e2e
PROMPTS = ["Once", "upon", "a time there"]
HELLO = [{"role": "user", "content": "Hello"}]
FORGETFUL = """
import os, sys
from dspark.llm import LLM, SamplingParams
from harness.processes import own_children

llm = LLM(sys.argv[1], kv_tokens=1024)
llm.generate("Once", SamplingParams(max_tokens=2))
print(*own_children().values())
"""


@pytest.fixture(scope="module")
def llm(tiny_model_dir: Path) -> Iterator[LLM]:
    with LLM(tiny_model_dir, kv_tokens=4096, sources=["suffix", "recycle"]) as running:
        yield running
        pids = own_children()
        assert set(pids) == SERVICES
    running.close()
    assert not [pid for pid in pids.values() if is_running(pid)]
    with pytest.raises(ClientClosed):
        running.generate("Once")


@pytest.fixture
def client(llm: LLM) -> Iterator[Client]:
    with Client(llm._server.client.target) as opened:
        yield opened


def token_ids(outputs: list[RequestOutput]) -> list[list[tuple[int, ...]]]:
    return [[each.token_ids for each in output.outputs] for output in outputs]


def test_it_equals_the_client(llm: LLM, client: Client) -> None:
    params = SamplingParams(n=3, seed=11, max_tokens=12, temperature=0.7, top_p=0.9, logprobs=2)
    outputs = llm.generate(PROMPTS, params)
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        same = client.generate_choices(
            prompt, 3, seed=11, max_tokens=12, temperature=0.7, top_p=0.9, logprobs=2
        )
        assert [each.token_ids for each in output.outputs] == [each.token_ids for each in same]
        assert [each.text for each in output.outputs] == [each.text for each in same]
        assert [each.seed for each in output.outputs] == [each.seed for each in same]
        assert output.prompt == prompt and output.prompt_token_ids == tuple(prompt.encode())
        for mine, other in zip(output.outputs, same, strict=True):
            told = [entry.logprob for entry in other.logprobs]
            assert mine.logprobs is not None
            assert [
                entries[token_id].logprob
                for entries, token_id in zip(mine.logprobs, mine.token_ids, strict=True)
            ] == told
            assert mine.cumulative_logprob == sum(told)


def test_it_equals_http(llm: LLM) -> None:
    socket = llm._server.client.target.removeprefix("unix:").replace("grpc.sock", "http.sock")
    fields: dict[str, Any] = {"seed": 5, "max_tokens": 10, "repetition_penalty": 1.3}
    output = llm.generate({"prompt_token_ids": list(b"Once")}, SamplingParams(**fields, n=2))[0]
    body = {"prompt": "Once", "n": 2, "return_token_ids": True, **fields}
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket), timeout=60) as http:
        reply = http.post("http://local/v1/completions", json=body).json()
    assert output.prompt is None and output.prompt_token_ids == tuple(b"Once")
    choices = reply["choices"]
    assert [list(each.token_ids) for each in output.outputs] == [c["token_ids"] for c in choices]
    assert [each.text for each in output.outputs] == [c["text"] for c in choices]
    assert [each.finish_reason for each in output.outputs] == [c["finish_reason"] for c in choices]


def test_many_prompts_keep_their_order_and_parameters(llm: LLM) -> None:
    prompts = [[65 + i % 26, 97] for i in range(100)]
    params = [SamplingParams(seed=i, max_tokens=1 + i % 5) for i in range(100)]
    together = llm.generate(prompts, params)
    assert [output.prompt_token_ids for output in together] == [tuple(p) for p in prompts]
    assert all(len(o.outputs[0].token_ids) <= 1 + i % 5 for i, o in enumerate(together))
    picked = [0, 42, 99]
    alone = [llm.generate(prompts[i], params[i])[0] for i in picked]
    assert token_ids(alone) == token_ids([together[i] for i in picked])


def test_speculation_changes_no_token(llm: LLM) -> None:
    options: dict[str, Any] = {"temperature": 0.0, "max_tokens": 48, "ignore_eos": True}
    always = SpeculationParams(policy="fixed", max_draft_tokens=3)
    on = llm.generate(PROMPTS, SamplingParams(**options, speculation=always))
    off = llm.generate(PROMPTS, SamplingParams(**options, speculation=False))
    assert token_ids(on) == token_ids(off)
    assert sum(each.outputs[0].speculation.drafted for each in on) > 0
    assert sum(each.outputs[0].speculation.drafted for each in off) == 0


def test_a_seed_that_was_drawn_is_reported_and_repeats_the_text(llm: LLM) -> None:
    first = llm.generate("Once")[0].outputs[0]
    again = llm.generate("Once", SamplingParams(seed=first.seed))[0].outputs[0]
    assert again.token_ids == first.token_ids
    assert llm.generate("Once")[0].outputs[0].seed != first.seed


def test_prompt_logprobs_and_structure(llm: LLM) -> None:
    yes_no = StructuredOutputsParams(choice=["yes", "no"])
    params = SamplingParams(structured_outputs=yes_no, prompt_logprobs=1, seed=3)
    (output,) = llm.generate("Sure?", params)
    assert output.outputs[0].text in ("yes", "no")
    assert output.outputs[0].finish_reason == "stop"
    assert output.prompt_logprobs is not None and output.prompt_logprobs[0] is None
    for entries, token_id in zip(output.prompt_logprobs[1:], b"Sure?"[1:], strict=True):
        assert entries is not None and token_id in entries


def test_chat_equals_the_client_and_tells_the_prompt(llm: LLM, client: Client) -> None:
    params = SamplingParams(seed=4, max_tokens=8)
    outputs = llm.chat([HELLO, [*HELLO, *HELLO]], params)
    assert outputs[0].prompt == "<|turn|>user:Hello<|end|><|turn|>assistant:"
    for messages, output in zip([HELLO, [*HELLO, *HELLO]], outputs, strict=True):
        same = client.generate(messages, seed=4, max_tokens=8)
        assert output.outputs[0].token_ids == same.token_ids
        assert len(output.prompt_token_ids) == same.usage.prompt_tokens
    (bare,) = llm.chat(HELLO, params, add_generation_prompt=False)
    assert bare.prompt == "<|turn|>user:Hello<|end|>"


def test_no_max_tokens_is_the_rest_of_the_context(llm: LLM) -> None:
    params = SamplingParams(max_tokens=None, temperature=0, ignore_eos=True)
    room = llm.max_model_len - 5
    for prompt in ("x" * room, list(b"x" * room)):
        (output,) = llm.generate(prompt, params)  # type: ignore[arg-type]
        assert len(output.outputs[0].token_ids) == 5


def test_a_prompt_that_fails_is_named(llm: LLM) -> None:
    long = "x" * 2000
    with pytest.raises(PromptFailed, match=r"^prompts\[1\]: text: has 2000 tokens") as caught:
        llm.generate(["Once", long, "upon"], SamplingParams(max_tokens=64))
    assert caught.value.index == 1
    with pytest.raises(PromptFailed, match=r"^prompts\[0\]: "):
        llm.generate([[9999]])
    with pytest.raises(TypeError, match="temprature"):
        llm.chat(HELLO, temprature=1)  # type: ignore[call-arg]
    assert len(llm.generate(PROMPTS)) == 3


async def test_it_works_where_a_loop_runs_as_in_a_notebook(llm: LLM) -> None:
    assert len(llm.generate(PROMPTS, SamplingParams(max_tokens=2))) == 3


def test_an_interrupt_cancels_what_runs_and_leaves_the_services(
    llm: LLM, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def interrupting(total: int, is_wanted: bool) -> Iterator[Callable[[RequestOutput], None]]:
        yield lambda output: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    lengths = [1, *[400] * 63]
    with monkeypatch.context() as patched:
        patched.setattr("dspark.llm.llm.progress_bar", interrupting)
        with pytest.raises(KeyboardInterrupt):
            llm.generate(
                ["Once"] * 64, [SamplingParams(max_tokens=n, ignore_eos=True) for n in lengths]
            )

    def is_idle() -> bool:
        engine = client.status().engine
        return engine is not None and (engine.num_running, engine.num_waiting) == (0, 0)

    assert wait_until(is_idle)
    assert len(llm.generate(PROMPTS)) == 3


def test_services_that_cannot_start_say_why(tiny_model_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="no known model"):
        LLM(tmp_path / "nowhere")
    with pytest.raises(StartFailed, match=r"^max_model_len 9000"):
        LLM(tiny_model_dir, max_model_len=9000)


def test_services_end_with_a_process_that_forgot_them(tiny_model_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, str(tiny_model_dir)],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == len(SERVICES)
    assert wait_until(lambda: not any(map(is_running, pids)))
    assert "Traceback" not in done.stderr
