"""A service that cannot listen where it is told ends with one line and 2."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

FLAGS = {
    "scheduler": ("--verifier", "127.0.0.1:1"),
    "candidates": (),
    "verifier": ("--model", "nothing"),
}


@pytest.mark.parametrize("service", FLAGS)
async def test_a_taken_port_is_one_clear_line_and_exit_code_2(service: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", f"dspark.{service}", "--listen", address, *FLAGS[service]),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, output = await asyncio.wait_for(process.communicate(), 30)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    errors = output.decode()
    assert process.returncode == 2
    assert (
        errors.strip().splitlines()[-1].startswith(f"{service}: error: cannot listen on {address}")
    )
    assert "Traceback" not in errors
