"""OpenAI's service tiers as classes of requests: "flex" may wait, "default" does not."""

from __future__ import annotations

from dspark.errors import UnsupportedField
from dspark.request_class import RequestClass

_TIERS = {
    "auto": RequestClass.INTERACTIVE,
    "default": RequestClass.INTERACTIVE,
    "flex": RequestClass.BATCH,
}
_NAMES = {RequestClass.INTERACTIVE: "default", RequestClass.BATCH: "flex"}


def class_of_tier(tier: str | None) -> RequestClass:
    """Raises UnsupportedField for a tier that there is none of here, such as "priority"."""
    if tier is None:
        return RequestClass.INTERACTIVE
    if tier not in _TIERS:
        raise UnsupportedField("service_tier", f"must be one of {', '.join(_TIERS)}")
    return _TIERS[tier]


def tier_of_class(request_class: RequestClass) -> str:
    """The tier that a response names."""
    return _NAMES[request_class]
