"""``python -m dspark.gateway.grammar_worker TOKENIZER``: compiles grammars of strangers.

Lines of JSON come in, a structured output each; lines of JSON go out, the problem that it has or an
empty text, and before them what is wrong with the tokenizer, or an empty text. What takes too long,
too much memory or too deep a stack kills this process alone.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from pathlib import Path

from dspark.grammars.compilation import compile_grammar, load_vocabulary
from dspark.grammars.refusal import GrammarRefused
from dspark.structured_output import Structure, StructuredOutput

# Time of the processor that one grammar may take, so that a busy machine refuses no more.
MAX_CPU_S = 0.8
MAX_MEMORY_BYTES = 2 * 1024**3


def output_to_line(output: StructuredOutput) -> bytes:
    fields = [output.structure.value, output.text, output.choices, output.any_whitespace]
    return json.dumps(fields).encode() + b"\n"


def output_from_line(line: str) -> StructuredOutput:
    structure, text, choices, any_whitespace = json.loads(line)
    return StructuredOutput(Structure(structure), text, tuple(choices), any_whitespace)


def main() -> None:
    # A terminal's Ctrl-C is for the gateway, whose end closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _die_first()
    try:
        vocabulary = load_vocabulary(Path(sys.argv[1]))
    except ValueError as error:
        _say(f"the model's tokenizer does not go with grammars: {error}")
        return
    _say("")
    for line in sys.stdin:
        output = output_from_line(line)
        # Nobody handles the signal, so it ends the process in the middle of native code too.
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
        try:
            compile_grammar(vocabulary, output)
            problem = ""
        except GrammarRefused as refused:
            problem = str(refused)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say(problem)


def _die_first() -> None:
    """Where memory runs out, the kernel is to end this process and not the gateway."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _say(text: str) -> None:
    print(json.dumps(text), flush=True)


if __name__ == "__main__":
    main()
