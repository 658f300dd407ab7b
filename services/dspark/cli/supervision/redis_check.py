"""Whether the store that ``--redis-url`` names is one, and whether it answers."""

from __future__ import annotations

from threading import Thread

from redis import Redis
from redis.exceptions import RedisError

from dspark.config import SettingError

_TIMEOUT_S = 1.0


def check_url(url: str) -> None:
    """Raises SettingError for what is no URL of a Redis, without it: it may hold a password."""
    try:
        Redis.from_url(url).close()
    except ValueError as error:
        forms = "redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH"
        raise SettingError(f"--redis-url must be {forms}") from error


def silence_of(url: str) -> str:
    """Why the Redis does not answer within a second; "" if it does."""
    problems = ["it does not answer"]

    def ask() -> None:
        limits = {"socket_connect_timeout": _TIMEOUT_S, "socket_timeout": _TIMEOUT_S}
        try:
            with Redis.from_url(url, **limits) as client:
                client.ping()
            problems.clear()
        except (RedisError, OSError) as error:
            problems[:] = [f"it does not answer: {str(error).rstrip('.')}"]

    # The look-up of a name has no timeout of its own.
    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_TIMEOUT_S)
    return "".join(problems)
