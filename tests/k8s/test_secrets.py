"""Secrets are where settings look for them, and certificates are those that peers accept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.scheduler.config import SchedulerConfig
from dspark.transport_security.identities import identities_of
from dspark.verifier.config import VerifierConfig
from harness.kubernetes.environment import environment_of
from harness.kubernetes.rendering import (
    Manifest,
    Rendered,
    compose,
    main_container,
    pod_spec,
    walk,
)

SERVICES = ("gateway", "scheduler", "candidates", "verifier")
# The files of each Secret, as `kubectl create secret` and cert-manager name them.
FILES = {
    "api-keys": {"keys"},
    "gateway-public-tls": {"tls.crt", "tls.key"},
    **{f"{service}-tls": {"tls.crt", "tls.key", "ca.crt"} for service in SERVICES},
}
CONFIGS: dict[str, type[Any]] = {
    "scheduler": SchedulerConfig,
    "candidates": CandidatesConfig,
    "verifier": VerifierConfig,
}
CALLERS = {"scheduler": "gateway", "candidates": "scheduler", "verifier": "scheduler"}


def secret_files(rendered: Rendered, service: str) -> set[Path]:
    """The files of secrets that the service finds in its container."""
    workload = rendered.named("Deployment", service)
    secrets = {
        volume["name"]: volume["secret"]["secretName"]
        for volume in pod_spec(workload)["volumes"]
        if "secret" in volume
    }
    return {
        Path(mount["mountPath"]) / name
        for mount in main_container(workload)["volumeMounts"]
        if mount["name"] in secrets
        for name in FILES[secrets[mount["name"]]]
    }


def named_files(rendered: Rendered, service: str) -> set[Path]:
    """The files of secrets that the service's settings name."""
    container = main_container(rendered.named("Deployment", service))
    values = environment_of(container, rendered).values()
    return {Path(value) for value in values if value.startswith("/etc/dspark/")}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("component", ["mtls", "api-keys", "public-tls"])
def test_settings_name_the_files_that_are_mounted(
    composed: Callable[..., Rendered], component: str, service: str
) -> None:
    rendered = composed(component)
    assert named_files(rendered, service) == secret_files(rendered, service)
    assert bool(secret_files(rendered, service)) == (component == "mtls" or service == "gateway")


def test_only_the_group_of_the_process_reads_secrets(rendered: Rendered) -> None:
    for workload in rendered.workloads:
        spec = pod_spec(workload)
        secrets = [v["secret"] for v in spec.get("volumes", []) if "secret" in v]
        assert all(secret["defaultMode"] == 0o440 for secret in secrets)
        assert not secrets or spec["securityContext"]["fsGroup"] == 10001


def test_no_secret_is_in_the_repository(rendered: Rendered) -> None:
    assert not rendered.of_kind("Secret")
    assert not [part for m in rendered.manifests for part in walk(m) if "stringData" in part]


def test_a_generated_secret_is_the_one_that_is_mounted(tmp_path: Path) -> None:
    """As k8s/README.md says: its name has a digest, so other keys are a rollout."""
    (tmp_path / "keys").write_text("one\n")
    generator = "secretGenerator:\n  - {name: api-keys, files: [keys]}\n"
    rendered = compose(tmp_path, "api-keys", more=generator)
    [secret] = rendered.names("Secret")
    assert secret.startswith("api-keys-")
    volumes = pod_spec(rendered.named("Deployment", "gateway"))["volumes"]
    assert [v["secret"]["secretName"] for v in volumes if "secret" in v] == [secret]


def certificate(composed: Callable[..., Rendered], service: str) -> Manifest:
    return composed("mtls", "cert-manager").named("Certificate", service)


@pytest.mark.parametrize("service", SERVICES)
def test_certificates_are_for_the_name_that_callers_expect(
    composed: Callable[..., Rendered], service: str
) -> None:
    spec = certificate(composed, service)["spec"]
    assert service in spec["dnsNames"]
    assert {"server auth", "client auth"} <= set(spec["usages"])
    assert spec["secretName"] == f"{service}-tls"


@pytest.mark.parametrize("service", SERVICES)
def test_certificates_show_who_calls(composed: Callable[..., Rendered], service: str) -> None:
    spec = certificate(composed, service)["spec"]
    names = [name.encode() for name in (*spec["dnsNames"], *spec["uris"])]
    identities = identities_of(
        {
            "peer_uri": [uri.encode() for uri in spec["uris"]],
            "peer_dns": [name.encode() for name in spec["dnsNames"]],
            "x509_subject_alternative_name": names,
        }
    )
    for callee, config in CONFIGS.items():
        [allowed] = [f.default for f in dataclasses.fields(config) if f.name == "allow_peers"]
        assert (not identities.isdisjoint(allowed)) == (CALLERS[callee] == service)


def test_certificates_are_renewed_long_before_they_end(
    composed: Callable[..., Rendered],
) -> None:
    for found in composed("mtls", "cert-manager").of_kind("Certificate"):
        duration, renew = (int(found["spec"][k][:-1]) for k in ("duration", "renewBefore"))
        assert renew * 6 >= duration
