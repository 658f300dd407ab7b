"""Flags of ``dspark serve``, settings of the services and their page are the same things."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

from dspark.cli.serve_config import ServeConfig
from dspark.cli.service_settings import SERVICES, service_of
from dspark.config import flag_of
from dspark.telemetry.logs import LogSettings
from dspark.transport_security.settings import BackendTransportSettings
from dspark.verifier.attention.registry import BACKENDS
from dspark.verifier.config import ATTENTION
from harness.setting_tables import PAGE, with_tables

# What dspark serve decides by itself, since it starts the services beside each other.
_WIRING = {
    *("listen", "model", "model_dir", "model_id", "served_model_name", "vocab_size", "drain_s"),
    *("http", "grpc", "scheduler", "verifier", "candidates", "allow_peers", "drain_pause_s"),
}
# What is for services that are started one by one.
_DEPLOYMENT = {
    *(field.name for field in dataclasses.fields(BackendTransportSettings)),
    *("http_tls_cert", "http_tls_key", "api_keys_file", "metrics_need_key", "metrics_port"),
}
# What hardly anybody changes: there are the variables. A name that two services have means another
# thing at each.
_BY_VARIABLE = {
    *(field.name for field in dataclasses.fields(LogSettings)),
    *("propose_deadline_ms", "lease_s", "stall_s", "step_timeout_s", "verifier_timeout_s"),
    *("mute_after", "mute_steps", "breaker_failures", "breaker_open_s", "failover_s", "rebalance"),
    *("max_tree_nodes", "max_source_failures", "min_mute_s", "max_mute_s", "max_sequences"),
}
_FLAGS = {field.name: field for field in dataclasses.fields(ServeConfig)}
_SETTINGS = [
    (name, service, field)
    for name, service in SERVICES.items()
    for field in dataclasses.fields(service)
]


def _is_flag(service: type[Any], name: str) -> bool:
    return name in _FLAGS and service_of(_FLAGS[name]) is service


def test_a_setting_is_a_flag_of_serve_or_left_out_for_one_reason() -> None:
    reasons = {
        f"{service_name} {field.name}": [
            _is_flag(service, field.name),
            *(field.name in left_out for left_out in (_WIRING, _DEPLOYMENT, _BY_VARIABLE)),
        ]
        for service_name, service, field in _SETTINGS
    }
    assert {name: found.count(True) for name, found in reasons.items()} == dict.fromkeys(reasons, 1)


def test_a_flag_of_serve_takes_what_the_service_takes() -> None:
    passed_on = [each for each in _SETTINGS if _is_flag(each[1], each[2].name)]
    assert {"max_waiting", "max_choices", "grammar_cache"} <= {each.name for *_, each in passed_on}
    for _, service, setting in passed_on:
        flag = _FLAGS[setting.name]
        own, taken = (get_type_hints(each)[setting.name] for each in (service, ServeConfig))
        assert taken in (own, own | None), setting.name
        assert flag.metadata.get("choices") == setting.metadata.get("choices"), setting.name
        assert flag.default in (None, ()), setting.name


def test_an_alias_is_for_one_flag_alone() -> None:
    aliases = [each for field in _FLAGS.values() for each in field.metadata.get("aliases", ())]
    assert "--max-queued-requests" in aliases
    assert len({*aliases, *map(flag_of, _FLAGS)}) == len(aliases) + len(_FLAGS)


def test_the_names_of_attention_backends_are_those_that_there_are() -> None:
    assert set(ATTENTION) == {"auto", *BACKENDS}


def test_the_page_lists_every_setting() -> None:
    """After a change of settings: PYTHONPATH=tests python tests/harness/setting_tables.py"""
    assert PAGE.read_text() == with_tables(PAGE.read_text())
