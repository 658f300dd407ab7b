"""Draft models without training: a tiny target's twin, or one that knows nothing of it."""

from __future__ import annotations

import json
from pathlib import Path

from dspark.candidates.target_digest import target_digest
from harness.tiny_models import save_tiny_model


def save_draft(target: Path, folder: Path, architecture: str, vocab_size: int, seed: int) -> Path:
    """A draft model that says that it fits the target."""
    save_tiny_model(architecture, folder, vocab_size, seed)
    path = folder / "config.json"
    # It may be sure of itself: with the target's weights it is right.
    said = {"dspark_target_digest": target_digest(target), "dspark_error_scale": 0.2}
    path.write_text(json.dumps(json.loads(path.read_text()) | said))
    return folder
