"""Settings of services as fields of the command line's configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any

from dspark.candidates.config import CandidatesConfig
from dspark.config import setting, with_default
from dspark.gateway.config import GatewayConfig
from dspark.scheduler.config import SchedulerConfig
from dspark.verifier.config import VerifierConfig

SERVICES: dict[str, type[Any]] = {
    "gateway": GatewayConfig,
    "scheduler": SchedulerConfig,
    "candidates": CandidatesConfig,
    "verifier": VerifierConfig,
}


def of(
    service: type[Any], name: str, group: str, text: str = "", aliases: Sequence[str] = ()
) -> Any:
    """A field that hands the service's setting of this name on, if it is given.

    Help text, choices and the default that is shown are the service's; ``text`` replaces the first.
    """
    own = next(field for field in fields(service) if field.name == name)
    told = with_default(text or own.metadata["help"], name, own.default)
    more = {"choices": own.metadata["choices"]} if "choices" in own.metadata else {}
    unset = () if isinstance(own.default, tuple) else None
    return setting(unset, told, service=service, group=group, aliases=tuple(aliases), **more)


def given(config: Any, service: type[Any]) -> dict[str, Any]:
    """The settings of a service that a config of such fields decides, be it as the default."""
    names = [each.name for each in fields(config) if service_of(each) is service]
    values = {name: getattr(config, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, ())}


def service_of(field: Field[Any]) -> type[Any] | None:
    """The config of the service that a field made by ``of`` is for; None for any other field."""
    service: type[Any] | None = field.metadata.get("service")
    return service
