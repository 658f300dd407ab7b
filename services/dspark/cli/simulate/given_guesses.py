"""Guesses of sources that are given by figures, merged as the candidates service merges them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dspark.candidates.merge import MergedTrees
from dspark.cli.simulate.guesses import FIRST_WRONG, RIGHT, Place
from dspark.cli.simulate.keyed_draws import combined, key_of, uniform
from dspark.cli.simulate.source_model import SourceModel, TextKind
from dspark.cli.simulate.verifier_model import VOCAB_SIZE
from dspark.token_tree import TokenTree

# A guess is never quite certain, nor its score above what a source may say.
MAX_ACCEPTANCE = 0.98
MIN_SCORE = 1e-3
_MAX_GUESSES = 16
_KIND, _TOKEN = key_of("kind"), key_of("token")


class GivenGuesses:
    """Whether a token is easy is the same for all sources: one draw a token decides for each."""

    def __init__(self, models: Sequence[SourceModel], kinds: Sequence[TextKind], seed: int) -> None:
        self.sources = tuple(model.name for model in models)
        self.rates = tuple(model.rate for model in models)
        self._models = tuple(models)
        self._keys = tuple(key_of(model.name) for model in models)
        self._kinds = tuple(kinds) or (TextKind(1.0, 1.0),)
        self._seed = seed
        self._factors: dict[int, float] = {}

    def tree(
        self, place: Place, sources: Collection[str], max_nodes: int, max_depth: int
    ) -> TokenTree:
        merged = MergedTrees(self.sources, VOCAB_SIZE)
        draws = _Draws(combined(self._seed, place.text, _TOKEN), place.num_generated_tokens)
        for index, model in enumerate(self._models):
            if model.name in sources and self._offers(index, place):
                merged.add(index, self._guess(index, place, draws, max_depth))
        return merged.best(max_nodes, max_depth)

    def factor(self, text: int) -> float:
        """How much easier than the mean a text is."""
        if text not in self._factors:
            left = uniform(self._seed, text, _KIND) * sum(kind.share for kind in self._kinds)
            for kind in self._kinds:
                self._factors[text] = kind.factor
                left -= kind.share
                if left < 0:
                    break
        return self._factors[text]

    def _offers(self, index: int, place: Place) -> bool:
        model = self._models[index]
        if model.offered >= 1.0:
            return True
        span = place.num_generated_tokens // model.span_tokens
        return uniform(self._seed, place.text, self._keys[index], span) < model.offered

    def _guess(self, index: int, place: Place, draws: _Draws, max_depth: int) -> TokenTree:
        """The first guesses as a chain, the further ones beside each of its nodes."""
        model, factor = self._models[index], self.factor(place.text)
        first_id = FIRST_WRONG + index * _MAX_GUESSES
        nodes: list[tuple[int, int, float]] = []
        above, on_path = 0, True
        for depth in range(1, min(model.max_depth, max_depth) + 1):
            acceptances = (model.acceptance_at(depth), *model.further[: _MAX_GUESSES - 1])
            # Below a wrong guess nothing is reached, so nothing needs to be drawn.
            draw = draws.at(depth) if on_path else 1.0
            chain, passed = len(nodes) + 1, 0.0
            for rank, mean in enumerate(acceptances):
                acceptance = min(mean * factor, MAX_ACCEPTANCE - passed)
                is_right = passed <= draw < passed + acceptance
                passed += acceptance
                score = min(max(acceptance * model.overconfidence, MIN_SCORE), MAX_ACCEPTANCE)
                nodes.append((RIGHT if is_right else first_id + rank, above, score))
                if rank == 0:
                    on_path = on_path and is_right
            above = chain
        ids, parents, scores = zip(*nodes, strict=True) if nodes else ((), (), ())
        return TokenTree(ids, parents, (1,) * len(ids), scores, (model.name,))


class _Draws:
    """One number for each of the next tokens of a text."""

    def __init__(self, key: int, position: int) -> None:
        self._key = key
        self._position = position
        self._drawn: dict[int, float] = {}

    def at(self, depth: int) -> float:
        if depth not in self._drawn:
            self._drawn[depth] = uniform(self._key, self._position + depth)
        return self._drawn[depth]
