"""Writes tokenizer.json for a model directory that has another kind of tokenizer. Run as a process:
``python -m dspark.cli.models.convert_tokenizer SOURCE DIRECTORY``.
"""

from __future__ import annotations

import sys


def convert(source: str, directory: str) -> None:
    """Load the tokenizer of ``source`` in its fast form and save it into ``directory``."""
    print("progress: converting the tokenizer", file=sys.stderr, flush=True)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source)
    if not tokenizer.is_fast:
        raise SystemExit(f"{type(tokenizer).__name__} has no form as tokenizer.json")
    tokenizer.save_pretrained(directory, save_jinja_files=False)


if __name__ == "__main__":
    convert(sys.argv[1], sys.argv[2])
