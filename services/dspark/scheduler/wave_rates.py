"""How many tokens a millisecond a verifier gave, by the number of its waves and its load."""

from __future__ import annotations

from dataclasses import dataclass, field

# Tokens over which a rate is averaged, and those that must have come before it counts.
MEMORY = 4000.0
LEAST_TOKENS = 1000.0
# Fewer will do where the rate is so far below another that it is not going to pass it.
EARLY_TOKENS = 250.0
HOPELESS_SHARE = 0.85
# A rate that was measured so many steps ago says nothing of now.
MAX_AGE = 2048


@dataclass(slots=True)
class _Rate:
    tokens: float = 0.0
    ms: float = 0.0
    num_seen: float = 0.0
    seen_at: int = 0


@dataclass(slots=True)
class WaveRates:
    """Each doubling of the number of running requests is a load of its own."""

    _step: int = 0
    _rates: dict[tuple[int, int], _Rate] = field(default_factory=dict)

    def observe(self, num_waves: int, num_running: int, num_tokens: int, own_ms: float) -> None:
        """Take in a step that committed so many tokens; ``own_ms`` of all steps add up."""
        self._step += 1
        rate = self._rates.setdefault(_key(num_waves, num_running), _Rate())
        if self._step - rate.seen_at > MAX_AGE:
            rate.tokens = rate.ms = rate.num_seen = 0.0
        kept = 1 - min(num_tokens / MEMORY, 1.0)
        rate.tokens = kept * rate.tokens + num_tokens
        rate.ms = kept * rate.ms + own_ms
        rate.num_seen += num_tokens
        rate.seen_at = self._step

    def of(self, num_waves: int, num_running: int, than: float | None = None) -> float | None:
        """Tokens a millisecond; None where too little is known of it, or nothing of late.

        Less has to be known of one that is hopelessly below ``than``.
        """
        rate = self._rates.get(_key(num_waves, num_running))
        if rate is None or rate.ms <= 0 or self._step - rate.seen_at > MAX_AGE:
            return None
        per_ms = rate.tokens / rate.ms
        is_hopeless = than is not None and per_ms < HOPELESS_SHARE * than
        least = EARLY_TOKENS if is_hopeless else LEAST_TOKENS
        return per_ms if rate.num_seen >= least else None


def _key(num_waves: int, num_running: int) -> tuple[int, int]:
    return num_waves, num_running.bit_length()
