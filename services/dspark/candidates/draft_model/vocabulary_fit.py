"""Whether the token ids of a draft model mean what the target's mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOKENIZER = "tokenizer.json"
_NOTHING = "nothing"


def common_ids(draft: Path, target: Path) -> int | None:
    """Ids below this number are the same piece in both tokenizers.

    None if the draft has no tokenizer. One of the two may go on beyond the other's last id, as
    tokenizers do that were given more special tokens. Raises ValueError for any other difference,
    OSError.
    """
    if not (draft / TOKENIZER).is_file():
        return None
    ours, theirs = pieces_by_id(draft / TOKENIZER), pieces_by_id(target / TOKENIZER)
    common = min(max(ours, default=-1), max(theirs, default=-1)) + 1
    for token_id in range(common):
        mine, its = ours.get(token_id), theirs.get(token_id)
        if mine != its:
            raise ValueError(
                f"{draft}: the vocabulary is not the target's: id {token_id} is "
                f"{_shown(mine)} here and {_shown(its)} in {target}"
            )
    return common


def pieces_by_id(path: Path) -> dict[int, str]:
    """Of a tokenizer.json, added tokens among them. Raises ValueError for a damaged one."""
    try:
        tokenizer = json.loads(path.read_text(encoding="utf-8"))
        pieces = _model_pieces(tokenizer["model"]["vocab"])
        added = {int(token["id"]): str(token["content"]) for token in tokenizer["added_tokens"]}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return pieces | added


def _model_pieces(vocab: Any) -> dict[int, str]:
    """Most models map pieces to ids; Unigram lists pieces with their scores."""
    if isinstance(vocab, dict):
        return {int(token_id): piece for piece, token_id in vocab.items()}
    return {token_id: str(piece) for token_id, (piece, _) in enumerate(vocab)}


def _shown(piece: str | None) -> str:
    return _NOTHING if piece is None else repr(piece)
