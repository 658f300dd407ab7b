"""Which metrics and labels a PromQL expression names. It reads what promtool accepts."""

from __future__ import annotations

import re
from dataclasses import dataclass

_KEYWORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan", "by", "without", "on"}
_KEYWORDS |= {"ignoring", "group_left", "group_right", "atan2"}
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)?\s*\{([^}]*)\}")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_NAME = re.compile(r"(?<![\w:.$])([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])")


@dataclass(frozen=True)
class Named:
    """``selected`` has (metric, label) of matchers, ``grouped`` labels that stand elsewhere."""

    metrics: frozenset[str]
    selected: frozenset[tuple[str, str]]
    grouped: frozenset[str]


def named_in(expression: str) -> Named:
    text = re.sub(r"\[[^\]]*\]", "", re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression))
    grouped = {
        label.strip() for labels in _GROUPING.findall(text) for label in labels.split(",")
    } - {""}
    text = _GROUPING.sub(" ", text)
    selected = {
        (metric, label)
        for metric, matchers in _SELECTOR.findall(text)
        for label in _MATCHER.findall(matchers)
    }
    text = _SELECTOR.sub(lambda match: f"{match[1] or ''} ", text)
    metrics = {name for name in _NAME.findall(text) if name.lower() not in _KEYWORDS}
    return Named(frozenset(metrics), frozenset(selected), frozenset(grouped))
