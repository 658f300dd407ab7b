"""The environment that a container of a manifest starts with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.kubernetes.rendering import Rendered

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def environment_of(container: Mapping[str, Any], rendered: Rendered) -> dict[str, str]:
    """Its variables as the kubelet makes them, those of secrets aside.

    What only a running pod has is ``<field path>``.

    As in the kubelet, ``$(NAME)`` sees the variables listed before it, not those of ``envFrom``.
    """
    variables: dict[str, str] = {}
    for source in container.get("envFrom", []):
        variables |= rendered.named("ConfigMap", source["configMapRef"]["name"])["data"]
    listed: dict[str, str] = {}
    for variable in container.get("env", []):
        if "secretKeyRef" in variable.get("valueFrom", {}):
            continue
        value = _value(variable, rendered)
        listed[variable["name"]] = _REFERENCE.sub(
            lambda match: listed.get(match[1], match[0]), value
        )
    return variables | listed


def _value(variable: Mapping[str, Any], rendered: Rendered) -> str:
    if "value" in variable:
        return str(variable["value"])
    source = variable["valueFrom"]
    if field := source.get("fieldRef"):
        return f"<{field['fieldPath']}>"
    key = source["configMapKeyRef"]
    return str(rendered.named("ConfigMap", key["name"])["data"][key["key"]])
