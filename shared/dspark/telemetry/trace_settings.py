"""What the standard OTEL_* variables say of traces, checked before anything is started.

Only what decides is read here; endpoints, headers, certificates, timeouts, limits, the sampler and
the batching (OTEL_BSP_*) are read by OpenTelemetry's own classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dspark.config import SettingError

EXPORTERS = ("otlp", "console")
PROTOCOLS = ("grpc", "http/protobuf")
SAMPLERS = tuple(
    prefix + name
    for prefix in ("", "parentbased_")
    for name in ("always_on", "always_off", "traceidratio")
)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """How to export; ``service_name`` is empty where a variable names the service."""

    exporter: str
    protocol: str
    endpoint: str
    service_name: str
    captures_content: bool

    @classmethod
    def of(cls, service: str, environ: Mapping[str, str]) -> TraceSettings | None:
        """None where traces are off; raises SettingError that names a variable."""
        endpoint = _first(environ, _ENDPOINTS)
        exporter = _first(environ, ("OTEL_TRACES_EXPORTER",))
        is_disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        if is_disabled or exporter == "none" or not (endpoint or exporter):
            return None
        exporter = exporter or EXPORTERS[0]
        protocol = _first(environ, _PROTOCOLS) or PROTOCOLS[0]
        _check("OTEL_TRACES_EXPORTER", exporter, (*EXPORTERS, "none"))
        _check(_PROTOCOLS[1], protocol, PROTOCOLS)
        _check_sampler(environ)
        is_named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        return cls(
            exporter=exporter,
            protocol=protocol,
            endpoint=endpoint or "the local collector",
            service_name="" if is_named else f"dspark-{service}",
            captures_content=environ.get(_CAPTURE, "").strip().lower()
            in ("true", "span_only", "span_and_event"),
        )


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


def _check(variable: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingError(f"{variable}={value!r} is not one of {', '.join(allowed)}")


def _check_sampler(environ: Mapping[str, str]) -> None:
    sampler = environ.get("OTEL_TRACES_SAMPLER", "")
    if sampler:
        _check("OTEL_TRACES_SAMPLER", sampler.lower(), SAMPLERS)
    ratio = environ.get("OTEL_TRACES_SAMPLER_ARG", "")
    if sampler.lower().endswith("traceidratio") and ratio:
        try:
            is_ratio = 0 <= float(ratio) <= 1
        except ValueError:
            is_ratio = False
        if not is_ratio:
            raise SettingError(f"OTEL_TRACES_SAMPLER_ARG={ratio!r} is not a number from 0 to 1")
