"""The source ``corpus:NAME`` over a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.draft_round import DraftRound
from dspark.candidates.metrics import metrics_registry
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.candidates.sources.retrieval import RetrievalSource
from dspark.candidates.sources.store import MemoryStore
from dspark.proposal import Successors
from dspark.token_tree import TokenTree
from harness.corpora import corpus_file

TEXT = [1, 2, 3, 4, 5, 6, 7, 8, 2, 3, 9, 1, 2, 3, 4, 8, 8]
FAR = float("inf")


def sequence(*token_ids: int, salt: str = "") -> LiveSequence:
    return LiveSequence("r", 0, salt, 1, list(token_ids))


def source_of(path: Path, name: str = "python", **more: Any) -> CandidateSource:
    config = CandidatesConfig(sources=(f"corpus:{name}",), corpus=(f"{name}={path}",), **more)
    (source,) = build_sources(config)
    return source


@pytest.fixture
def source(tmp_path: Path) -> CandidateSource:
    return source_of(corpus_file(tmp_path / "c", TEXT))


def propose(source: CandidateSource, live: LiveSequence, nodes: int = 15) -> TokenTree:
    trees = source.propose([DraftRequest(live, nodes, 16)], 0.0)
    assert isinstance(trees, list)
    return trees[0]


async def test_its_trees_are_those_of_retrieval_that_learnt_the_text(
    source: CandidateSource,
) -> None:
    retrieval = RetrievalSource(MemoryStore(10_000), "m")
    await retrieval.start()
    retrieval.release(LiveSequence("t", 0, "", 0, TEXT), completed=True)
    await retrieval.drain()
    for end in range(len(TEXT) + 1):
        for prompt in ([], [77]):
            live = sequence(*prompt, *TEXT[:end][-4:])
            expected, tree = propose(retrieval, live), propose(source, live)
            assert (tree.token_ids, tree.parents, tree.scores) == (
                expected.token_ids,
                expected.parents,
                expected.scores,
            )
            assert tree.source_names in ((), ("corpus:python",))
    await retrieval.close()


async def test_it_serves_every_tenant(source: CandidateSource) -> None:
    assert propose(source, sequence(4, 5, salt="a")) == propose(source, sequence(4, 5))


async def test_nothing_teaches_it(source: CandidateSource, tmp_path: Path) -> None:
    before = (tmp_path / "c").read_bytes(), propose(source, sequence(60, 61))
    live = sequence(60, 61, 62)
    await source.start()
    source.commit(live, live.token_ids)
    source.observe(Successors((60,), ((61,),)))
    source.release(live, completed=True)
    await source.close()
    assert ((tmp_path / "c").read_bytes(), propose(source, sequence(60, 61))) == before
    assert len(before[1]) == 0


async def test_a_request_chooses_among_corpora(tmp_path: Path) -> None:
    paths = {
        name: corpus_file(tmp_path / name, [1, 2, token])
        for name, token in (("python", 50), ("legal_2-x", 60))
    }
    names = tuple(f"corpus:{name}" for name in paths)
    config = CandidatesConfig(
        sources=names, corpus=tuple(f"{name}={path}" for name, path in paths.items())
    )
    proposer = Proposer(build_sources(config), config)
    requests = [DraftRequest(sequence(1, 2), 4, 4)] * 3
    wanted = [(names[0],), (names[1],), ()]
    trees = await DraftRound(proposer.runners, requests, wanted, 100, FAR).run()
    assert [set(tree.token_ids) for tree in trees] == [{50}, {60}, {50, 60}]
    assert proposer.info.sources == names


def test_metrics_name_it(source: CandidateSource) -> None:
    registry = metrics_registry(Proposer([source], CandidatesConfig()))
    labels = {"source": "corpus:python"}
    assert (registry.get_sample_value("dspark_candidates_source_entries", labels) or 0) > 10


def test_a_file_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    path = corpus_file(tmp_path / "c", TEXT, vocab_size=100)
    source_of(path, vocab_size=100)
    with pytest.raises(ValueError, match=f"{path}: is made for a vocabulary of 100 tokens"):
        source_of(path, vocab_size=101)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"sources": ("corpus:python",)}, "sources: corpus:python: give its file"),
        ({"sources": ("corpus:A",)}, "sources: the corpus 'A' must be 1 to 32"),
        ({"sources": ("corpus:",)}, "sources: the corpus '' must be 1 to 32"),
        ({"sources": ("corpus",)}, "sources: unknown"),
        ({"sources": ("corpora:a",)}, "sources: unknown"),
        ({"sources": ("suffix:a",)}, "sources: unknown"),
    ],
)
def test_a_corpus_that_is_nowhere_is_named(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build_sources(CandidatesConfig(**settings))


@pytest.mark.parametrize(
    ("corpus", "problem"),
    [
        (("python",), "corpus: 'python' must be NAME=FILE"),
        (("python=",), "corpus: 'python=' must be NAME=FILE"),
        (("a b=f",), "corpus: 'a b' must be 1 to 32"),
        (("a" * 33 + "=f",), "must be 1 to 32"),
        (("python=f", "python=g"), "corpus: 'python' appears twice"),
        (("c=f",), "corpus: 'c' has a file, but corpus:c is none of the sources"),
    ],
)
def test_a_bad_setting_is_told(corpus: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        CandidatesConfig(sources=("suffix", "corpus:python"), corpus=corpus)


def test_there_are_no_more_sources_than_a_tree_can_name() -> None:
    with pytest.raises(ValueError, match="sources: there may be 32 at most"):
        CandidatesConfig(sources=tuple(f"corpus:{number}" for number in range(33)))
