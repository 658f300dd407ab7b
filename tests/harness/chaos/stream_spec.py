"""The requests of a load: every front, length and way to sample, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

FRONTS = ("sse", "grpc", "chat", "whole")
MAX_MODEL_LEN = 512
_SHARED_BEGINNING = "Once upon a time there was a service that nobody could end. " * 3


@dataclass(frozen=True)
class StreamSpec:
    """One request. ``front`` is how it comes: SSE completion, gRPC, SSE chat, or not streamed."""

    name: str
    front: str
    prompt: str
    max_tokens: int
    temperature: float
    seed: int
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    ignore_eos: bool = True
    use_prefix_cache: bool = True
    speculation: bool = True

    def plainly(self) -> StreamSpec:
        """The same request without guesses and caches: what every other way must equal."""
        return replace(self, speculation=False, use_prefix_cache=False)


def draw_specs(count: int, seed: int, longest: int = 320) -> list[StreamSpec]:
    """Half of them greedy; some with stop strings, some long prompts that share a beginning."""
    generator = random.Random(seed)
    return [_draw(generator, index, longest) for index in range(count)]


def _draw(generator: random.Random, index: int, longest: int) -> StreamSpec:
    own = "".join(generator.choice("abcdefgh ") for _ in range(generator.randint(3, 24)))
    prompt = _SHARED_BEGINNING[: generator.choice((32, 48))] + own if index % 3 == 0 else own
    return StreamSpec(
        name=f"s{index}",
        front=FRONTS[index % len(FRONTS)],
        prompt=prompt * 2 if index % 5 == 0 else prompt,
        max_tokens=generator.choice((longest // 8, longest // 2, longest)),
        temperature=0.0 if index % 2 else 0.8,
        seed=generator.randrange(2**32),
        top_p=0.95 if index % 4 == 0 else 1.0,
        stop=tuple(generator.sample("ABCXYZ0189", 2)) if index % 4 == 1 else (),
        ignore_eos=index % 3 != 2,
        use_prefix_cache=index % 7 != 6,
    )
