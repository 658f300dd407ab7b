"""API keys: who may call, by a file that holds hashes of keys and no key.

A line of the file is a JSON object: ``{"name": "ci", "sha256": "9f86…"}``, with ``expires``
(RFC 3339, with a time zone), ``tenant`` (whose caches it shares; its name if unset) and the limits
``max_concurrency`` and ``tokens_per_minute`` if wanted.
Empty lines and lines that begin with # say nothing.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspark.config import SettingError
from dspark.errors import Unauthenticated
from dspark.gateway.caller import ANYBODY, Caller
from dspark.gateway.key_limits import LIMIT_FIELDS, NO_LIMITS, KeyLimits, parse_limits
from dspark.log_limiter import LogLimiter
from dspark.watched_files import CHECK_S, WatchedFiles

log = logging.getLogger(__name__)

# What secret scanners look for.
PREFIX = "dspark_"
_NUM_SECRET_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_FIELDS = {"name", "sha256", "expires", "tenant", *LIMIT_FIELDS}
_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One line of the file; ``digest`` is the SHA-256 of the key."""

    name: str
    digest: bytes
    tenant: str
    expires: datetime.datetime | None = None
    limits: KeyLimits = NO_LIMITS

    def line(self) -> str:
        """The line that says so."""
        fields: dict[str, str | int] = {"name": self.name, "sha256": self.digest.hex()}
        if self.expires is not None:
            fields["expires"] = self.expires.isoformat()
        if self.tenant != self.name:
            fields["tenant"] = self.tenant
        return json.dumps(fields | self.limits.fields())


class ApiKeys:
    """The keys of a file, which may change at any time; raises SettingError for a bad one at first.

    Without a file anybody may call.
    """

    def __init__(self, path: str, check_s: float = CHECK_S) -> None:
        self._watched = WatchedFiles((path,), lambda: _read(Path(path)), check_s) if path else None
        self._limiter = LogLimiter()

    @property
    def are_needed(self) -> bool:
        return self._watched is not None

    def caller_of(self, authorization: str | None, peer: str) -> Caller:
        """Whose call it is, by its Authorization header; raises Unauthenticated.

        ``peer`` is the caller's address, for the log.
        """
        if self._watched is None:
            return ANYBODY
        try:
            key = _key_of(self._watched.value(), authorization)
        except Unauthenticated as error:
            if self._limiter.is_due((error.message, peer)):
                log.warning("refused a call from %s: %s", peer, error.message)
            raise
        return Caller(key.name, key.tenant, key.limits)


def draw_key() -> str:
    """A new key that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(_NUM_SECRET_BYTES)


def digest_of(key: str) -> bytes:
    # A fast hash does: what is hashed has 256 random bits, so there is nothing to try out.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def parse_key(fields: Any) -> ApiKey:
    """An ApiKey from the JSON of its line; raises ValueError that never repeats the line."""
    if not isinstance(fields, dict):
        raise ValueError("is no JSON object")
    if unknown := set(fields) - _FIELDS:
        raise ValueError(f"has {len(unknown)} unknown fields; known: {', '.join(sorted(_FIELDS))}")
    name = _text(fields, "name", _NAME)
    return ApiKey(
        name=name,
        digest=bytes.fromhex(_text(fields, "sha256", _DIGEST)),
        tenant=_text(fields, "tenant", _NAME) if "tenant" in fields else name,
        expires=parse_expiry(fields["expires"]) if "expires" in fields else None,
        limits=parse_limits(fields),
    )


def parse_expiry(text: Any) -> datetime.datetime:
    """Raises ValueError for what is no RFC 3339 time, or has no time zone."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError("expires must be like 2027-01-31T00:00:00Z")
    return time


def _text(fields: Mapping[str, Any], name: str, form: re.Pattern[str]) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"{name} is missing or has another form")
    return value


def _read(path: Path) -> dict[bytes, ApiKey]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: {getattr(error, 'strerror', 'is no UTF-8 text')}") from None
    keys: dict[bytes, ApiKey] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            key = parse_key(json.loads(line))
        except json.JSONDecodeError:
            raise SettingError(f"{path}: line {number} is no JSON object") from None
        except ValueError as error:
            raise SettingError(f"{path}: line {number}: {error}") from None
        if key.digest in keys or key.name in {each.name for each in keys.values()}:
            raise SettingError(f"{path}: line {number}: the name or key is there twice")
        keys[key.digest] = key
    if not keys:
        raise SettingError(f"{path}: has no key")
    return keys


def _key_of(keys: Mapping[bytes, ApiKey], authorization: str | None) -> ApiKey:
    if not authorization:
        raise Unauthenticated("no API key was sent: send the header Authorization: Bearer KEY")
    if authorization[: len(_SCHEME)].lower() != _SCHEME:
        raise Unauthenticated("the Authorization header must be: Bearer KEY")
    # The time of a look-up tells of the digest only, and nobody can make a key for a digest.
    digest = digest_of(authorization[len(_SCHEME) :].strip())
    key = keys.get(digest)
    if key is None or not hmac.compare_digest(key.digest, digest):
        raise Unauthenticated("the API key is not valid")
    if key.expires is not None and key.expires <= datetime.datetime.now(datetime.UTC):
        raise Unauthenticated(f"the API key {key.name!r} expired at {key.expires.isoformat()}")
    return key
