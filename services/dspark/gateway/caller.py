"""Whose call it is that runs in this task."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from dataclasses import dataclass

from dspark.gateway.key_limits import NO_LIMITS, KeyLimits

_USER_DIGEST_CHARS = 16


@dataclass(frozen=True, slots=True)
class Caller:
    """The name of the API key, the tenant whose caches its requests share, and what it may use."""

    name: str = ""
    tenant: str = ""
    limits: KeyLimits = NO_LIMITS

    def cache_salt(self, asked: str) -> str:
        """The salt of a request that asks for one: no tenant can name that of another."""
        return f"{self.tenant}/{asked}" if self.tenant else asked

    def share_of(self, user: str) -> str:
        """Whose share of the server a request for this user takes: the key's tenant, if any.

        Else it is the user, by a digest: names of people belong neither in logs nor elsewhere.
        """
        if self.tenant or not user:
            return self.tenant
        return hashlib.sha256(user.encode()).hexdigest()[:_USER_DIGEST_CHARS]


ANYBODY = Caller()
_current: ContextVar[Caller] = ContextVar("caller", default=ANYBODY)


def set_caller(caller: Caller) -> None:
    """For the rest of the task, which serves this call alone."""
    _current.set(caller)


def current_caller() -> Caller:
    return _current.get()
