"""What can be known to fail is found out before a model is fetched or a service is started."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.source_checks import check_sources
from dspark.cli.json_output import check_writable
from dspark.cli.models.model_config import check_max_model_len, check_pruning_layer
from dspark.cli.models.prepare import PreparedModel, prepare
from dspark.cli.progress import Progress
from dspark.cli.service_settings import SERVICES, given
from dspark.cli.services_config import ServicesConfig
from dspark.cli.supervision.corpora import check_corpora
from dspark.cli.supervision.redis_check import check_url, silence_of
from dspark.cli.supervision.spec import DEPLOYMENT_VARIABLES
from dspark.config import SettingError, flag_of, from_namespace, with_flag

_GROWING_FILES = ("decision_log", "record_calls")
# What the services are given by whoever starts them, in place of any variable.
_SOCKET = ("unix:socket",)
_WIRING: dict[str, dict[str, Any]] = {
    "gateway": {"model_dir": "", "scheduler": _SOCKET, "http": "", "grpc": ""},
    "scheduler": {"listen": "", "verifier": _SOCKET, "candidates": _SOCKET},
    "candidates": {"listen": "", "model": "", "vocab_size": None},
    "verifier": {"listen": "", "model": ""},
}


def prepared_model(config: ServicesConfig, progress: Progress) -> PreparedModel:
    """The model, once services that serve it as the config asks have a chance to start.

    Raises SettingError or CliError that names the flag or variable that is wrong. A Redis that does
    not answer costs speed only, so it is a warning.
    """
    check_settings(config, os.environ)
    if config.redis_url and (silence := silence_of(config.redis_url)):
        progress.note(f"warning: --redis-url: {silence}; serving without it until it answers")
    model = prepare(config.model, progress)
    check_fit(config, model)
    return model


def check_settings(config: ServicesConfig, environ: Mapping[str, str]) -> None:
    """Raises SettingError or CliError for what is wrong whatever the model is."""
    for name, service in SERVICES.items():
        flags = argparse.Namespace(**_WIRING[name] | given(config, service))
        from_namespace(service, flags, {**environ, **DEPLOYMENT_VARIABLES})
    _check_sources(config.candidates())
    if config.redis_url:
        check_url(config.redis_url)
    for name in _GROWING_FILES:
        if path := getattr(config, name):
            check_writable(Path(path), flag_of(name))


def check_fit(config: ServicesConfig, model: PreparedModel) -> None:
    """Raises SettingError or CliError for what does not go with the model."""
    check_max_model_len(config.max_model_len, model)
    check_pruning_layer(config.verifier(model="").pruning_layer, model)
    check_corpora(config, model)
    _check_sources(config.candidates(model=str(model.directory)))


def _check_sources(config: CandidatesConfig) -> None:
    try:
        check_sources(config)
    except ValueError as error:
        raise SettingError(with_flag(str(error), CandidatesConfig)) from error
