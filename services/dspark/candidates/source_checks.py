"""Whether the sources of a config can run, found out in a moment: no network is loaded."""

from __future__ import annotations

from pathlib import Path

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.learned_sources import LEARNED, LearnedSource
from dspark.candidates.learned_weights import NoWeights
from dspark.candidates.registry import DEFAULT, check_names


def check_sources(config: CandidatesConfig) -> None:
    """Raises ValueError that begins with the setting that is wrong.

    Whether weights fit is looked at once the config says for which model.
    """
    check_names(config)
    running = config.sources or DEFAULT
    for name, source in LEARNED.items():
        if (path := source.given(config)) is not None:
            _check_given(name, source, path, running)
        if config.model is not None and (path or name in config.sources):
            _check_fit(name, source, config)


def _check_given(name: str, source: LearnedSource, path: str, running: tuple[str, ...]) -> None:
    if name not in running:
        raise ValueError(f"{source.setting} {path}: --sources must name {name} for it")
    if not Path(path).exists():
        raise ValueError(f"{source.setting} {path}: no such file or directory")


def _check_fit(name: str, source: LearnedSource, config: CandidatesConfig) -> None:
    path = source.given(config)
    where = f"sources: {name}" if path is None else f"{source.setting} {path}"
    try:
        source.check(source.weights(config), Path(config.model or ""))
    except (NoWeights, ValueError) as error:
        raise ValueError(f"{where} cannot run: {error}") from error
    except OSError as error:
        raise ValueError(f"{where} cannot be read: {error.strerror}") from error
