"""`python -m dspark.gateway.template_worker`: renders chat templates under limits.

A template is a program. This process runs it for the gateway, which neither waits for one that does
not end nor pays for one that takes all memory: the process then ends itself, whatever it is doing.
"""

from __future__ import annotations

import functools
import json
import resource
import signal
import struct
import sys
from typing import IO, Any

from dspark.errors import InvalidArgument
from dspark.gateway.chat_template import MAX_REASON_CHARS, ChatTemplate

_LENGTH = struct.Struct(">Q")
# The first frame, so that a worker which died while it started is not taken for a template's fault.
READY = b"ready"


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame, a length and so many bytes; None where the stream ends."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def write_frame(stream: IO[bytes], body: bytes) -> None:
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def answer(frame: bytes, max_chars: int) -> bytes:
    """A rendering as JSON: ``source``, ``tokens`` and render's arguments in, ``text`` out.

    Without arguments what comes out is ``variables``, the names that the template reads. What the
    template refuses comes back as ``field`` and ``problem``.
    """
    reply: dict[str, Any]
    try:
        job = json.loads(frame)
        template = _compiled(job["source"], tuple(job["tokens"].items()))
        if "arguments" in job:
            reply = {"text": template.render(**job["arguments"], max_chars=max_chars)}
        else:
            reply = {"variables": sorted(template.text.variables)}
    except InvalidArgument as error:
        reply = {"field": error.field, "problem": error.problem}
    except RecursionError:
        reply = {"field": "messages", "problem": "something in them is nested too deeply"}
    except MemoryError:
        reply = {"field": "messages", "problem": "the chat template needs too much memory"}
    return json.dumps(reply).encode()


@functools.lru_cache(maxsize=16)
def _compiled(source: str, tokens: tuple[tuple[str, str], ...]) -> ChatTemplate:
    try:
        return ChatTemplate(source, dict(tokens))
    except ValueError as error:
        raise InvalidArgument("chat_template", str(error)[:MAX_REASON_CHARS]) from error


def main(seconds: float, max_bytes: int, max_chars: int) -> None:
    """Answer frames of stdin until it ends."""
    # Ctrl-C is the gateway's affair: this process ends with its stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    write_frame(sys.stdout.buffer, READY)
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        # By default the signal kills, also inside a single long operation.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        reply = answer(frame, max_chars)
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(sys.stdout.buffer, reply)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
