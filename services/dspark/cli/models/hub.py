"""Fetches a model from the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.progress import Progress

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]


def is_hub_id(text: str) -> bool:
    """Whether the text has the form ``organisation/name``."""
    return _HUB_ID.fullmatch(text) is not None


def fetch_snapshot(hub_id: str, progress: Progress) -> Path:
    """The directory of the model's newest snapshot, fetched unless it is in the hub's own cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    with progress.part(f"fetching {hub_id} from the Hugging Face hub"):
        try:
            return Path(snapshot_download(hub_id, allow_patterns=_WANTED))
        except LocalEntryNotFoundError as error:
            raise CliError(
                f"{hub_id} is not in the local cache and the Hugging Face hub cannot be reached; "
                "use a local directory or GGUF file, or a model of `dspark models`"
            ) from error
        except (HfHubHTTPError, OSError) as error:
            raise CliError(f"could not fetch {hub_id}: {error}") from error
