from __future__ import annotations

import argparse
from typing import Any

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.config import SettingError, add_arguments, from_namespace
from dspark.gateway.config import GatewayConfig
from dspark.scheduler.config import SchedulerConfig
from dspark.transport_security.identities import identities_of
from dspark.transport_security.settings import ServerTransport
from dspark.transport_security.tls_files import TlsFiles
from dspark.verifier.config import VerifierConfig

ALL = ("--tls-cert", "--tls-key", "--tls-ca")


def parse(config: type[Any], *argv: str) -> Any:
    parser = argparse.ArgumentParser()
    add_arguments(parser, config)
    return from_namespace(config, parser.parse_args(argv), {})


@pytest.mark.parametrize("given", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_some_files_of_three_are_an_error_that_names_the_others(given: tuple[int, ...]) -> None:
    argv = [f"{ALL[index]}=x" for index in given]
    with pytest.raises(SettingError) as caught:
        parse(CandidatesConfig, *argv)
    before_the_verb = str(caught.value).partition("missing")[0]
    assert [flag for flag in ALL if flag in before_the_verb] == [
        flag for index, flag in enumerate(ALL) if index not in given
    ]


def test_all_three_make_a_server_that_knows_its_callers() -> None:
    config = parse(CandidatesConfig, *(f"{flag}={flag[6:]}" for flag in ALL))
    assert isinstance(config, CandidatesConfig)
    transport = config.serving(config.allow_peers)
    assert transport.tls == TlsFiles("cert", "key", "ca")
    assert transport.allowed_peers == {"scheduler"}


def test_without_files_there_is_no_tls() -> None:
    config = CandidatesConfig()
    assert config.serving(config.allow_peers) == ServerTransport(
        allowed_peers=frozenset({"scheduler"})
    )


def test_nobody_allowed_is_an_error() -> None:
    with pytest.raises(SettingError, match="--allow-peers"):
        parse(CandidatesConfig, "--allow-peers=")


def test_the_public_certificate_needs_its_key() -> None:
    with pytest.raises(SettingError, match="--http-tls-key is missing"):
        parse(GatewayConfig, "--model-dir=m", "--http-tls-cert=c")
    with pytest.raises(SettingError, match="--api-keys-file"):
        parse(GatewayConfig, "--model-dir=m", "--metrics-need-key")


def test_who_has_no_certificate_is_nobody() -> None:
    assert identities_of({}) == frozenset()


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("spiffe://a.b/dspark/gateway", {"spiffe://a.b/dspark/gateway", "gateway"}),
        ("spiffe://a.b/ns/x/sa/y", {"spiffe://a.b/ns/x/sa/y"}),
        ("spiffe://a.b", {"spiffe://a.b"}),
        ("spiffe://A B/dspark/gateway", set()),
        ("spiffe:///dspark/gateway", set()),
        ("https://a.b/dspark/gateway", {"n"}),
    ],
)
def test_the_identity_of_a_uri(uri: str, expected: set[str]) -> None:
    auth = {
        "peer_uri": [uri.encode()],
        "peer_dns": [b"n"],
        "x509_common_name": [b"c"],
        "x509_subject_alternative_name": [uri.encode(), b"n"],
    }
    assert identities_of(auth) == expected


@pytest.mark.parametrize("config", [CandidatesConfig, SchedulerConfig, VerifierConfig])
@pytest.mark.parametrize("flag", ["--health-port", "--metrics-port"])
@pytest.mark.parametrize("port", ["-1", "65536"])
def test_what_is_no_port_is_an_error_that_names_its_flag(
    config: type, flag: str, port: str
) -> None:
    required = ["--verifier=v:1"] if config is SchedulerConfig else []
    required += ["--model=m"] if config is VerifierConfig else []
    with pytest.raises(SettingError, match=f"{flag} must be from 0 to 65535"):
        parse(config, *required, f"{flag}={port}")


def test_services_are_reached_from_this_machine_alone_unless_asked_for() -> None:
    assert parse(CandidatesConfig).listen == "127.0.0.1:50053"
    assert parse(SchedulerConfig, "--verifier=v:1").listen == "127.0.0.1:50052"
    assert parse(VerifierConfig, "--model=m").listen == "127.0.0.1:50061"
    gateway = parse(GatewayConfig, "--model-dir=m")
    assert (gateway.http, gateway.grpc) == ("127.0.0.1:8000", "127.0.0.1:50051")
