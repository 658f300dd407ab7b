"""The published schemas of Kubernetes and of the operators whose resources are used."""

from __future__ import annotations

import importlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from harness.kubernetes.rendering import Manifest, walk

# Module and resources of each API group that is not Kubernetes' own.
_OPERATORS = {
    "monitoring.coreos.com/v1": "cloudcoil.models.prometheus_operator.v1",
    "cert-manager.io/v1": "cloudcoil.models.cert_manager.v1",
}


def is_of_operator(manifest: Manifest) -> bool:
    return manifest["apiVersion"] in _OPERATORS


def problems(manifest: Manifest, version: str) -> list[str]:
    """Where the manifest breaks its schema, unknown fields included. ``version`` is like 1.37."""
    if is_of_operator(manifest):
        validator = _operator_validator(manifest["apiVersion"], manifest["kind"])
    else:
        validator = _kubernetes_validator(manifest["apiVersion"], manifest["kind"], version)
    name = f"{manifest['kind']}/{manifest['metadata']['name']}"
    return [f"{name} {e.json_path}: {e.message}" for e in validator.iter_errors(manifest)]


@cache
def _definitions(folder: str) -> Registry[Any]:
    contents = json.loads((_folder(folder) / "_definitions.json").read_text())
    resource = Resource.from_contents(contents, default_specification=DRAFT202012)
    # A registry that is not crawled is crawled anew at each look-up.
    return Registry().with_resource("_definitions.json", resource).crawl()


@cache
def _kubernetes_validator(api_version: str, kind: str, version: str) -> Draft202012Validator:
    folder = f"v{version}.0-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = json.loads((_folder(folder) / f"{kind.lower()}-{group}.json").read_text())
    return Draft202012Validator(schema, registry=_definitions(folder))


def _folder(name: str) -> Any:
    return files("kubernetes_validate") / "kubernetes-json-schema" / name


@cache
def _operator_validator(api_version: str, kind: str) -> Draft202012Validator:
    """From models that are generated from the operator's own resource definitions."""
    model = getattr(importlib.import_module(_OPERATORS[api_version]), kind)
    schema = model.model_json_schema(by_alias=True)
    for part in walk(schema):
        if isinstance(part.get("properties"), dict):
            part.setdefault("additionalProperties", False)
    return Draft202012Validator(schema)
