"""How much a JSON text holds, counted without parsing it (pure).

To parse megabytes of tiny values takes a second, in which no other thread runs Python. Counting
bytes takes some milliseconds.
"""

from __future__ import annotations

from dspark.errors import InvalidArgument

FIELD = "body"
MAX_KEYS = 100_000
_VALUES = (b",", b"[", b"{")
_KEYS = (b":", b"{")


def check_counts(body: bytes, max_values: int) -> None:
    """Raises InvalidArgument for more values or keys than that.

    Each value but the first of its list or object stands behind a comma, and each list and object
    begins with a bracket, so what is counted is the number of values or a little more.
    """
    if _count(body, _VALUES) <= max_values and _count(body, _KEYS) <= MAX_KEYS:
        return
    # Only keys have a colon behind their last quotation mark; inside a text it is escaped.
    if body.count(b'":') - body.count(b'\\":') > MAX_KEYS:
        raise _too_many_keys()
    # What is within texts is none: a second look, at what is between them.
    between = _between_texts(body, max_values + MAX_KEYS + 1)
    if between is None or _count(between, _VALUES) > max_values:
        raise InvalidArgument(FIELD, f"has more than {max_values} values")
    if _count(between, _KEYS) > MAX_KEYS:
        raise _too_many_keys()


def _too_many_keys() -> InvalidArgument:
    return InvalidArgument(FIELD, f"has more than {MAX_KEYS} keys in its objects")


def _count(body: bytes, marks: tuple[bytes, ...]) -> int:
    return sum(map(body.count, marks))


def _between_texts(body: bytes, max_texts: int) -> bytes | None:
    """The body without its keys and texts; None where those are more."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    most = 2 * max_texts + 1
    parts = body.split(b'"', most)
    return None if len(parts) > most else b"".join(parts[::2])
