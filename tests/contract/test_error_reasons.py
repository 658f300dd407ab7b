"""error_reason.proto and dspark.errors say the same."""

from __future__ import annotations

import re

import grpc
import pytest

from dspark import errors
from dspark.v1.error_reason_pb2 import ErrorReason
from harness.repository import PROTOS

PREFIX = "ERROR_REASON_"
CLASSES = {
    cls.__name__: cls
    for cls in vars(errors).values()
    if isinstance(cls, type)
    and issubclass(cls, errors.DSparkError)
    and cls is not errors.DSparkError
}
PROTO_TEXT = (PROTOS / "dspark" / "v1" / "error_reason.proto").read_text()


def proto_comments() -> dict[str, str]:
    """The comment above each value, by reason name."""
    comments: dict[str, str] = {}
    lines: list[str] = []
    for line in PROTO_TEXT.splitlines():
        if line.strip().startswith("//"):
            lines.append(line.strip().removeprefix("//").strip())
        elif match := re.match(rf"\s*{PREFIX}(\w+) = \d+;", line):
            comments[match[1]] = " ".join(lines)
            lines = []
        else:
            lines = []
    return comments


def test_each_reason_has_one_class_and_each_class_one_reason() -> None:
    reasons = [cls.reason for cls in CLASSES.values()]
    assert len(reasons) == len(set(reasons))
    enum_names = {name.removeprefix(PREFIX) for name in ErrorReason.keys()} - {"UNSPECIFIED"}
    assert set(reasons) == enum_names


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
def test_the_proto_names_the_status_of_each_reason(cls: type[errors.DSparkError]) -> None:
    assert cls.code in grpc.StatusCode.__members__
    assert re.search(rf"\({cls.code}\b", proto_comments()[cls.reason])


def test_the_table_of_the_module_is_true() -> None:
    table = {
        name: (code, int(http))
        for name, code, http in re.findall(
            r"^[│├└─ ]*(\w+) +([A-Z_]+) +(\d{3})", errors.__doc__ or "", re.MULTILINE
        )
    }
    assert table == {name: (cls.code, cls.http_status) for name, cls in CLASSES.items()}
