"""``dspark chat``: a conversation at the terminal."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys

from dspark.cli.connection import add_connection_arguments, connected
from dspark.cli.printing import print_stream
from dspark.cli.progress import Progress
from dspark.cli.sampling_flags import add_sampling_arguments, sampling_options
from dspark.cli.text_input import accept_any_bytes, checked, is_text
from dspark.client import Client, Completion, GenerateOptions
from dspark.errors import DSparkError

NAME = "chat"
HELP = "talk with the model; /reset forgets the conversation, /exit or Ctrl-D ends it"
_COMMANDS = ("/reset", "/exit")
_COMMAND = re.compile(r"/[A-Za-z]\w*")


def add_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--system", help="system message that opens the conversation; default: none"
    )
    add_sampling_arguments(parser)
    add_connection_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    progress = Progress()
    accept_any_bytes()
    system = None if arguments.system is None else checked(arguments.system, "--system")
    options = sampling_options(arguments)
    with connected(arguments, progress) as client:
        conversation = Conversation(client, options, system)
        if sys.stdin.isatty():
            _enable_line_editing()
            progress.note(f"{HELP}; Ctrl-C ends an answer")
        talk(conversation, progress)
    return 0


class Conversation:
    """The turns so far, and the client that continues them."""

    def __init__(self, client: Client, options: GenerateOptions, system: str | None) -> None:
        self._client = client
        self._options = options
        self._opening = [{"role": "system", "content": system}] if system is not None else []
        self.reset()

    def reset(self) -> None:
        self._messages = list(self._opening)

    def answer(self, text: str) -> Completion | None:
        """Print the answer as it comes; None if Ctrl-C ended it. A failed turn is forgotten."""
        messages = [*self._messages, {"role": "user", "content": text}]
        said: list[str] = []
        completion = None
        with (
            contextlib.suppress(KeyboardInterrupt),
            self._client.stream(messages, **self._options) as stream,
        ):
            print_stream(stream, said)
            completion = stream.completion
        if completion is None:
            print(flush=True)
        self._messages = [*messages, {"role": "assistant", "content": "".join(said)}]
        return completion


def talk(conversation: Conversation, progress: Progress) -> None:
    """Read lines and answer them until the input ends."""
    while (line := _read_line()) is not None:
        match line.strip():
            case "":
                continue
            case "/exit":
                return
            case "/reset":
                conversation.reset()
                progress.note("the conversation starts anew")
            case text if not is_text(text):
                progress.note("the line is not UTF-8 text, so it was not sent")
            case text if _COMMAND.fullmatch(text.split()[0]):
                progress.note(f"there is no command {text}; there are {', '.join(_COMMANDS)}")
            case text:
                _answer(conversation, text, progress)


def summary(completion: Completion) -> str:
    """How fast an answer came, and how much of it was speculated."""
    tokens = completion.usage.completion_tokens
    rate = tokens / (completion.elapsed_ms / 1e3) if completion.elapsed_ms else 0.0
    share = completion.speculation.accepted / tokens if tokens else 0.0
    return f"[{tokens} tokens, {rate:.1f} tokens/s, {share:.0%} from speculation]"


def _answer(conversation: Conversation, text: str, progress: Progress) -> None:
    try:
        completion = conversation.answer(text)
    except DSparkError as error:
        progress.note(f"error: {error.message}")
        return
    progress.note("[cancelled]" if completion is None else summary(completion))


def _read_line() -> str | None:
    """A line of input; Ctrl-C at the prompt drops the line, the end of the input is None."""
    while True:
        try:
            return input("> " if sys.stdin.isatty() else "")
        except KeyboardInterrupt:
            print()
        except EOFError:
            if sys.stdin.isatty():
                print()
            return None


def _enable_line_editing() -> None:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401
