"""``dspark serve`` as a process, the way a person runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dspark.cli.supervision.launch import launch_command
from harness.byte_tokenizer import write_model_dir
from harness.processes import children_of, is_running, wait_until
from harness.tiny_models import save_tiny_model

SERVICES = {"dspark.gateway", "dspark.scheduler", "dspark.candidates", "dspark.verifier"}
START_TIMEOUT_S = 240.0
_NUM_BYTE_TOKENS = 258


@dataclass
class Served:
    """A running server. ``output`` has stdout and stderr; the process leads a process group."""

    process: subprocess.Popen[bytes]
    output_path: Path
    temporary: Path

    @property
    def output(self) -> str:
        return self.output_path.read_text()

    @property
    def url(self) -> str:
        return self._shown(r"HTTP  (\S+)")

    @property
    def grpc_target(self) -> str:
        return self._shown(r"gRPC  (\S+)")

    @property
    def curl_line(self) -> str:
        return self._shown(r"  (curl .+)")

    @property
    def children(self) -> dict[str, int]:
        return children_of(self.process.pid)

    def press_ctrl_c(self) -> None:
        """A terminal sends SIGINT to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait_for(self, text: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the text was shown; fails with the output if it never is."""
        wait_until(lambda: text in self.output or self.process.poll() is not None, timeout_s)
        assert text in self.output, self.output

    def _shown(self, pattern: str) -> str:
        found = re.search(pattern, self.output)
        assert found, self.output
        return found.group(1)


@contextmanager
def serve(folder: Path, model_dir: Path, *flags: str) -> Iterator[Served]:
    """Start it; whatever becomes of the test, no process is left behind."""
    temporary = Path(tempfile.mkdtemp(dir="/tmp", prefix="e2e-"))
    output_path = folder / "output.txt"
    ports = ("--http-port", "0", "--grpc-port", "0")
    with open(output_path, "wb") as output:
        process = subprocess.Popen(
            launch_command("dspark.cli", ["serve", "--model", str(model_dir), *ports, *flags]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(temporary)},
            process_group=0,
        )
    served = Served(process, output_path, temporary)
    try:
        yield served
    finally:
        children = served.children
        process.kill()
        process.wait()
        for pid in children.values():
            assert wait_until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


@contextmanager
def ready_server(folder: Path, model_dir: Path, *flags: str) -> Iterator[Served]:
    """``serve`` that answers."""
    with serve(folder, model_dir, *flags) as served:
        served.wait_for("Ctrl-C stops it.")
        yield served


def make_tiny_model_dir(folder: Path) -> Path:
    """A complete model: random weights of a tiny Llama, byte tokenizer, chat template."""
    write_model_dir(folder)
    return save_tiny_model("llama", folder, vocab_size=_NUM_BYTE_TOKENS)
