"""Whose call it is that runs in this task."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The name of the API key, and the tenant whose caches its requests share."""

    name: str = ""
    tenant: str = ""

    def cache_salt(self, asked: str) -> str:
        """The salt of a request that asks for one: no tenant can name that of another."""
        return f"{self.tenant}/{asked}" if self.tenant else asked


ANYBODY = Caller()
_current: ContextVar[Caller] = ContextVar("caller", default=ANYBODY)


def set_caller(caller: Caller) -> None:
    """For the rest of the task, which serves this call alone."""
    _current.set(caller)


def current_caller() -> Caller:
    return _current.get()
