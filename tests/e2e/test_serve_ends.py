"""However ``dspark serve`` ends, nothing is left; whatever ends below it, streams go on."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dspark.client import Client
from dspark.errors import BackendUnavailable
from harness.processes import is_running, wait_until
from harness.served import SERVICES, Served, ready_server, serve

pytestmark = pytest.mark.e2e
LONG, SHORT = 200, 24


def left_over(server: Served) -> list[Path]:
    return list(server.temporary.glob("dspark-*"))


def all_ended(pids: dict[str, int]) -> bool:
    return not any(map(is_running, pids.values()))


@pytest.mark.parametrize("press", [Served.press_ctrl_c, lambda server: server.process.terminate()])
def test_ctrl_c_and_sigterm_stop_everything(
    tmp_path: Path, tiny_model_dir: Path, press: Callable[[Served], None]
) -> None:
    with ready_server(tmp_path, tiny_model_dir) as server:
        children = server.children
        assert set(children) == SERVICES
        press(server)
        assert server.process.wait(20) == 0
        assert all_ended(children)
        assert not left_over(server)
        assert "Traceback" not in server.output


def test_sigterm_lets_a_short_answer_end(tmp_path: Path, tiny_model_dir: Path) -> None:
    with (
        ready_server(tmp_path, tiny_model_dir) as server,
        Client(server.grpc_target) as client,
    ):
        plain = client.generate("abc", max_tokens=SHORT, temperature=0, ignore_eos=True)
        stream = client.stream("abc", max_tokens=SHORT, temperature=0, ignore_eos=True)
        tokens = list(next(stream).token_ids)
        server.process.terminate()
        tokens += [token for chunk in stream for token in chunk.token_ids]
        assert tuple(tokens) == plain.token_ids
        assert server.process.wait(20) == 0


def test_a_second_sigterm_ends_at_once(tmp_path: Path, tiny_model_dir: Path) -> None:
    with ready_server(tmp_path, tiny_model_dir) as server:
        children = server.children
        # A service that stands still cannot drain, and would be waited for.
        os.kill(children["dspark.gateway"], signal.SIGSTOP)
        server.process.terminate()
        server.wait_for("again to end at once")
        server.process.terminate()
        assert server.process.wait(20) == 0
        assert "ending at once" in server.output
        assert all_ended(children)
        assert not left_over(server)
        assert "Traceback" not in server.output


def test_ctrl_c_during_the_start_stops_everything(tmp_path: Path, tiny_model_dir: Path) -> None:
    with serve(tmp_path, tiny_model_dir) as server:
        server.wait_for("verifier: ")
        children = server.children
        server.press_ctrl_c()
        assert server.process.wait(20) == 0
        assert all_ended(children)
        assert not left_over(server)
        assert "Traceback" not in server.output


def test_no_child_outlives_a_killed_parent(tmp_path: Path, tiny_model_dir: Path) -> None:
    with ready_server(tmp_path, tiny_model_dir) as server:
        children = server.children
        assert set(children) == SERVICES
        server.process.kill()
        assert wait_until(lambda: all_ended(children), 5)


def test_clients_of_a_killed_gateway_find_it_again(tmp_path: Path, tiny_model_dir: Path) -> None:
    with (
        ready_server(tmp_path, tiny_model_dir) as server,
        Client(server.grpc_target) as client,
    ):
        plain = client.generate("abc", max_tokens=LONG, seed=3, ignore_eos=True)
        stream = client.stream("abc", max_tokens=LONG, seed=3, ignore_eos=True)
        tokens = list(next(stream).token_ids)
        os.kill(server.children["dspark.gateway"], signal.SIGKILL)
        with pytest.raises(BackendUnavailable):
            tokens += [token for chunk in stream for token in chunk.token_ids]
        assert tuple(tokens) == plain.token_ids[: len(tokens)]
        server.wait_for("gateway serves again")
        again = client.generate("abc", max_tokens=LONG, seed=3, ignore_eos=True)
        assert again.token_ids == plain.token_ids


@pytest.mark.parametrize("victim", ["candidates", "verifier", "scheduler"])
def test_a_stream_survives_the_death_of_a_service_unchanged(
    tmp_path: Path, tiny_model_dir: Path, victim: str
) -> None:
    with (
        ready_server(tmp_path, tiny_model_dir) as server,
        Client(server.grpc_target) as client,
    ):
        prompt = "abcabcabc"
        plain = client.generate(
            prompt, max_tokens=LONG, temperature=0.8, seed=3, ignore_eos=True, speculation=False
        )
        stream = client.stream(
            prompt, max_tokens=LONG, temperature=0.8, seed=3, ignore_eos=True, timeout=200
        )
        tokens = list(next(stream).token_ids)
        os.kill(server.children[f"dspark.{victim}"], signal.SIGKILL)
        tokens += [token for chunk in stream for token in chunk.token_ids]
        assert tuple(tokens) == plain.token_ids
        server.wait_for(f"{victim} was killed by SIGKILL")
        server.wait_for(f"{victim} serves again")
        assert set(server.children) == SERVICES


def test_a_service_that_cannot_start_shows_why(tmp_path: Path, tiny_model_dir: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny_model_dir, broken)
    (broken / "model.safetensors").write_bytes(b"no weights")
    with serve(tmp_path, broken) as server:
        # As for every setting that cannot work.
        assert server.process.wait(120) == 2
        assert "verifier exited with" in server.output
        assert "verifier.log" in server.output
        assert "Traceback" not in server.output.partition("dspark: verifier exited")[0]
        assert not left_over(server)
