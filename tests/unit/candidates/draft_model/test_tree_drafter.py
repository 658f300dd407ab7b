"""Trees of tiny random models: whatever is cached, they are those of a fresh start."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dspark.candidates.draft_model.causal_model import CausalModel, load_causal_model
from dspark.candidates.draft_model.tree_drafter import (
    MAX_DEPTH,
    MAX_NEW,
    WIDTH,
    DraftWish,
    TreeDrafter,
    check_trees,
)
from dspark.keyed_noise import KeyedNoise
from dspark.token_tree import TokenTree
from dspark.training.torch_threads import torch_threads
from harness.tiny_models import ARCHITECTURES, VOCAB_SIZE, save_tiny_model, tiny_model

FOREVER = 1e9
LENGTHS = (5, 40, 1, 20)


class TimedModel(CausalModel):
    """Every pass takes ``seconds`` on a clock that nothing else moves."""

    seconds = 0.0
    now = 0.0
    num_passes = 0

    def logits(self, *arguments: object, **more: object) -> NDArray[np.float32]:
        self.now += self.seconds
        self.num_passes += 1
        return super().logits(*arguments, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def llama() -> TimedModel:
    return TimedModel(tiny_model("llama"))


@pytest.fixture(autouse=True)
def reset(llama: TimedModel) -> Iterator[None]:
    llama.seconds = llama.now = 0.0
    llama.num_passes = 0
    with torch_threads(1):
        yield


def drafter(model: CausalModel, max_kv_tokens: int = 4000, error_scale: float = 1.0) -> TreeDrafter:
    return TreeDrafter(
        model,
        num_ids=VOCAB_SIZE,
        error_scale=error_scale,
        max_kv_tokens=max_kv_tokens,
        clock=lambda: getattr(model, "now", 0.0),
    )


def wish(index: int, text: Sequence[int], temperature: float = 0.0, nodes: int = 12) -> DraftWish:
    return DraftWish(index, tuple(text), nodes, 6, temperature, seed=index)


def random_texts(seed: int, lengths: Sequence[int] = LENGTHS) -> list[list[int]]:
    generator = random.Random(seed)
    return [[generator.randrange(VOCAB_SIZE) for _ in range(length)] for length in lengths]


def accept(text: list[int], tree: TokenTree, generator: random.Random) -> None:
    """Commit a random path of the tree, and one more token."""
    node = 0
    while tree.children[node] and generator.random() < 0.7:
        token_id = generator.choice(list(tree.children[node]))
        node = tree.children[node][token_id]
        text.append(token_id)
    text.append(generator.randrange(VOCAB_SIZE))


def assert_alike(one: TokenTree, other: TokenTree) -> None:
    assert (one.token_ids, one.parents) == (other.token_ids, other.parents)
    assert one.scores == pytest.approx(other.scores, abs=1e-3)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_batch_with_a_past_gives_the_trees_of_single_requests_without(architecture: str) -> None:
    model = CausalModel(tiny_model(architecture))
    together, alone = drafter(model), [drafter(model) for _ in LENGTHS]
    generator, texts = random.Random(1), random_texts(0)
    num_nodes = 0
    for _ in range(4):
        wishes = [wish(i, text, 0.8 * (i % 2)) for i, text in enumerate(texts)]
        trees = together.draft(wishes, FOREVER)
        for index, (tree, text) in enumerate(zip(trees, texts, strict=True)):
            assert_alike(tree, alone[index].draft([wishes[index]], FOREVER)[0])
            assert_alike(tree, drafter(model).draft([wishes[index]], FOREVER)[0])
            tree.validate(VOCAB_SIZE)
            num_nodes += len(tree)
            accept(text, tree, generator)
    assert num_nodes == 4 * len(LENGTHS) * 12


def test_scores_are_the_models_probabilities(llama: TimedModel) -> None:
    (text,) = random_texts(2, [9])
    (tree,) = drafter(llama).draft([wish(0, text)], FOREVER)
    model = tiny_model("llama")
    for node in range(len(tree)):
        path = [tree.token_ids[each] for each in tree.ancestors(node)]
        with torch.no_grad():
            logits = model(torch.tensor([[*text, *path[:-1]]])).logits[0, -1]
        softmax = torch.softmax(logits, dim=0)
        assert tree.scores[node] == pytest.approx(float(softmax[path[-1]]), abs=1e-4)


def test_siblings_at_a_temperature_are_the_best_with_the_draws_noise(llama: TimedModel) -> None:
    (text,) = random_texts(2, [9])
    (tree,) = drafter(llama).draft([wish(3, text, 1.5)], FOREVER)
    with torch.no_grad():
        logits = tiny_model("llama")(torch.tensor([text])).logits[0, -1].numpy()
    noise = KeyedNoise(3, len(text)).gumbel(np.arange(VOCAB_SIZE))
    order = np.argsort(-(logits / 1.5 + noise)).tolist()
    first = list(tree.children[0])
    assert first == order[: len(first)] and first
    assert tree != drafter(llama).draft([wish(3, text)], FOREVER)[0]


def test_what_was_accepted_is_not_computed_again(llama: TimedModel) -> None:
    (text,) = random_texts(3, [8])
    source = drafter(llama)
    (tree,) = source.draft([wish(0, text)], FOREVER)
    path = tree.ancestors(max(range(len(tree)), key=lambda node: tree.depths[node]))
    assert len(path) > 1
    computed = [node for node in path if any(parent == node + 1 for parent in tree.parents)]
    text += [*(tree.token_ids[node] for node in path), 5]
    cache = source.caches.open(0)
    cache.commit(text)
    assert len(text) - cache.end <= 1 + len(path) - len(computed)


def test_a_long_prompt_is_read_in_pieces_and_answered_then(llama: TimedModel) -> None:
    (text,) = random_texts(4, [300])
    source = drafter(llama)
    llama.seconds = 1.0
    lengths, ends = [], []
    while not lengths or not lengths[-1]:
        (tree,) = source.draft([wish(0, text)], llama.now + 1.5)
        lengths.append(len(tree))
        ends.append(source.caches.open(0).end)
        assert len(lengths) < 50
    assert ends == sorted(ends) and len(set(ends)) > 2
    assert_alike(
        source.draft([wish(0, text)], FOREVER)[0], drafter(llama).draft([wish(0, text)], FOREVER)[0]
    )


def test_a_slow_model_ends_its_tree_before_the_deadline(llama: TimedModel) -> None:
    # One that is sure of itself, so that the time alone ends its trees.
    source, texts = drafter(llama, error_scale=0.01), random_texts(5, [6])
    llama.seconds = 1.0
    source.draft([wish(0, texts[0])], FOREVER)
    for budget, passes in ((0.5, 0), (1.5, 1), (2.5, 2), (3.5, 3)):
        texts[0].append(3)
        before, deadline = llama.num_passes, llama.now + budget
        (tree,) = source.draft([wish(0, texts[0])], deadline)
        assert llama.num_passes - before == passes
        assert llama.now <= deadline
        assert max(tree.depths, default=0) == passes


def test_a_model_that_once_was_slow_is_tried_again(llama: TimedModel) -> None:
    source, (text,) = drafter(llama), random_texts(5, [6])
    llama.seconds = 100.0
    source.draft([wish(0, text)], FOREVER)
    llama.seconds = 0.1
    text.append(1)
    tries = 0
    while not len(source.draft([wish(0, text)], llama.now + 1.0)[0]):
        tries += 1
        assert tries < 100
    assert tries > 1


def test_requests_that_there_is_no_time_for_take_turns(llama: TimedModel) -> None:
    source, texts = drafter(llama), random_texts(6, [4] * 4)
    source.times.add(4, 1.0)
    served = set()
    for _ in range(8):
        trees = source.draft([wish(i, text) for i, text in enumerate(texts)], llama.now + 1.2)
        served |= {index for index, tree in enumerate(trees) if len(tree)}
        for text in texts:
            text.append(7)
    assert served == {0, 1, 2, 3}


def test_the_longest_unused_cache_goes_first(llama: TimedModel) -> None:
    limit = 3 * (20 + WIDTH * MAX_DEPTH)
    source = drafter(llama, limit)
    texts = random_texts(7, [20] * 8)
    for _ in range(3):
        for index, text in enumerate(texts):
            (tree,) = source.draft([wish(index, text)], FOREVER)
            assert len(tree)
            assert source.caches.num_tokens <= limit
            text.append(1)
    assert source.caches.num_evicted > 0
    assert 7 in source.caches and 0 not in source.caches
    source.forget(7)
    assert 7 not in source.caches


def test_a_batch_beyond_the_limit_is_served_in_part(llama: TimedModel) -> None:
    limit = 2 * (20 + WIDTH * MAX_DEPTH)
    source, texts = drafter(llama, limit), random_texts(7, [20] * 4)
    trees = source.draft([wish(index, text) for index, text in enumerate(texts)], FOREVER)
    assert 0 < sum(bool(len(tree)) for tree in trees) < 4
    assert source.caches.num_tokens <= limit


def test_a_text_beyond_the_context_goes_on_from_its_last_half(llama: TimedModel) -> None:
    (text,) = random_texts(8, [3])
    source = drafter(llama, 200)
    generator = random.Random(0)
    starts = set()
    while len(text) < 300:
        (tree,) = source.draft([wish(0, text)], FOREVER)
        assert len(tree)
        starts.add(source.caches.open(0).start)
        accept(text, tree, generator)
    assert len(starts) > 2
    assert source.caches.num_tokens <= 200


def test_ids_that_the_model_does_not_have(llama: TimedModel) -> None:
    source = TreeDrafter(llama, num_ids=10, error_scale=1.0, max_kv_tokens=4000)
    (text,) = random_texts(9, [9])
    trees = source.draft([wish(0, text), wish(1, [3, VOCAB_SIZE]), wish(2, [])], FOREVER)
    assert max(trees[0].token_ids) < 10
    assert not len(trees[1]) and not len(trees[2])
    assert source.draft([wish(0, text, nodes=0)], FOREVER) == [TokenTree((), (), (), (), ())]


def test_a_draft_vocabulary_leaves_the_rest_of_the_tree_as_it_is() -> None:
    token_ids = list(range(0, VOCAB_SIZE, 2))
    part = CausalModel(tiny_model("gemma3"), token_ids)
    whole = CausalModel(tiny_model("gemma3"))
    (text,) = random_texts(12, [5])
    for temperature in (0.0, 1.2):
        asked = wish(4, text, temperature, nodes=40)
        (ours,), (theirs,) = (drafter(m).draft([asked], FOREVER) for m in (part, whole))
        assert set(ours.token_ids) <= set(token_ids) and len(ours)
        even = [token_id for token_id in theirs.children[0] if token_id % 2 == 0]
        assert list(ours.children[0])[: len(even)] == even and even


def test_more_new_tokens_than_a_round_takes_at_once(llama: TimedModel) -> None:
    (text,) = random_texts(10, [5 * MAX_NEW + 1])
    (tree,) = drafter(llama).draft([wish(0, text)], FOREVER)
    assert len(tree)


def test_a_model_that_does_not_keep_to_masks_is_refused() -> None:
    class Deaf(CausalModel):
        def logits(self, token_ids, positions, visible, cache, wanted):  # type: ignore[no-untyped-def]
            return super().logits(token_ids, positions, visible | True, cache, wanted)

    model = tiny_model("llama")
    check_trees(CausalModel(model))
    with pytest.raises(ValueError, match="cannot compute trees"):
        check_trees(Deaf(model))


def test_a_model_from_disk_is_the_one_that_was_saved(tmp_path: Path) -> None:
    model = load_causal_model(save_tiny_model("qwen3", tmp_path))
    (text,) = random_texts(11, [12])
    assert_alike(
        drafter(model).draft([wish(0, text)], FOREVER)[0],
        drafter(CausalModel(tiny_model("qwen3"))).draft([wish(0, text)], FOREVER)[0],
    )
