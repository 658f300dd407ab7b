"""Acceptance length of the training-free sources on recorded texts, without running the model.

    python tests/bench/acceptance_replay.py TRACES.json [--nodes 7,15] [--sources recycle,suffix]

``record_traces.py`` makes the traces, a JSON list of
``{"set", "kind", "prompt_ids", "token_ids", "rows": [{"tokens": [k], "top": [k][k]}]}``:
``token_ids`` is what the target generated greedily, ``rows[i].tokens`` its k most likely tokens at
output position i, ``rows[i].top[j]`` the successors it computes after the j-th of them. A verified
node that is not among those k teaches nothing here, so figures are slightly low.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.registry import build_sources
from dspark.candidates.sources.retrieval import RetrievalSource
from dspark.proposal import (
    CandidatesUpdate,
    ProposeItem,
    SequenceEnd,
    SequenceUpdate,
    Successors,
)
from dspark.token_tree import TokenTree
from dspark.training.replay import accepted_path

MAX_DEPTH = 16
MIXES = ["suffix", "recycle", "retrieval", "recycle,suffix", "recycle,suffix,retrieval"]


@dataclass
class Tally:
    """What happened over the rounds of one or more texts."""

    rounds: int = 0
    tokens: int = 0
    drafted: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    # score in tenths -> (sum of scores, accepted, nodes) of nodes whose parent was accepted
    bins: dict[int, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0, 0]))

    @property
    def acceptance_length(self) -> float:
        return self.tokens / max(1, self.rounds)

    def add(self, other: Tally) -> None:
        self.rounds += other.rounds
        self.tokens += other.tokens
        self.drafted += other.drafted
        self.accepted += other.accepted
        for tenth, values in other.bins.items():
            self.bins[tenth] = [a + b for a, b in zip(self.bins[tenth], values, strict=True)]

    def count(self, tree: TokenTree, path: list[int]) -> None:
        """One round: ``path`` has the accepted nodes of the tree."""
        self.rounds += 1
        self.tokens += len(path) + 1
        for node in range(len(tree)):
            self.drafted.update(tree.sources_of(node))
            if tree.parents[node] == 0 or tree.parents[node] - 1 in path:
                tenth = self.bins[int(10 * tree.scores[node])]
                tenth[0] += tree.scores[node]
                tenth[1] += node in path
                tenth[2] += 1
        for node in path:
            self.accepted.update(tree.sources_of(node))


def observed(trace: dict[str, Any], done: int, tree: TokenTree, path: list[int]) -> Successors:
    """The logits rows of one verified tree, as far as the trace has them."""
    rows = trace["rows"]
    anchor = (trace["prompt_ids"] + trace["token_ids"])[len(trace["prompt_ids"]) + done - 1]
    seen: list[tuple[int, list[int]]] = [(anchor, rows[done]["tokens"])]
    for node, (token_id, parent) in enumerate(zip(tree.token_ids, tree.parents, strict=True)):
        position = done + tree.depths[node] - 1
        if position >= len(rows) or not (parent == 0 or parent - 1 in path):
            continue
        likely = rows[position]["tokens"]
        if token_id in likely:
            seen.append((token_id, rows[position]["top"][likely.index(token_id)]))
    return Successors(
        tuple(token_id for token_id, _ in seen), tuple(t for _, top in seen for t in top)
    )


async def replay(proposer: Proposer, name: str, trace: dict[str, Any], max_nodes: int) -> Tally:
    """Decode one text; the proposer keeps what it learnt for the next one."""
    tally = Tally()
    prompt, text = tuple(trace["prompt_ids"]), trace["token_ids"]
    update = CandidatesUpdate((SequenceUpdate(name, 0, 0, prompt, len(prompt)),))
    done = 0
    while done < len(trace["rows"]):
        item = ProposeItem(name, 0, len(prompt) + done, max_nodes, MAX_DEPTH)
        outcome = await proposer.propose(update, [item])
        tree = outcome.proposals[0].tree
        path = accepted_path(tree, text[done : len(trace["rows"]) - 1])
        tally.count(tree, path)
        new = tuple(text[done : done + len(path) + 1])
        update = CandidatesUpdate(
            (SequenceUpdate(name, 0, len(prompt) + done, new),),
            (observed(trace, done, tree, path),),
        )
        done += len(new)
    proposer.observe(update)
    proposer.observe(CandidatesUpdate(releases=(SequenceEnd(name, 0, True),)))
    for runner in proposer.runners:
        if isinstance(runner.source, RetrievalSource):
            await runner.source.drain()
    return tally


async def replay_all(
    traces: list[dict[str, Any]], sources: tuple[str, ...], max_nodes: int, **learned: str | None
) -> dict[str, Tally]:
    """Tallies by kind, texts one after the other in one proposer that starts with nothing.

    ``learned`` are settings of learned sources.
    """
    config = CandidatesConfig(sources=sources, propose_deadline_ms=1e6, **learned)
    proposer = Proposer(build_sources(config), config)
    await proposer.start()
    tallies = {}
    for number, trace in enumerate(traces):
        tally = await replay(proposer, str(number), trace, max_nodes)
        tallies[f"{trace['set']}/{trace['kind']}"] = tally
    await proposer.close()
    return tallies


def report(label: str, tallies: dict[str, Tally], *, calibration: bool) -> None:
    total = Tally()
    by_set: dict[str, Tally] = defaultdict(Tally)
    for kind, tally in tallies.items():
        total.add(tally)
        by_set[kind.split("/")[0]].add(tally)
    kinds = "  ".join(f"{kind} {tally.acceptance_length:.2f}" for kind, tally in tallies.items())
    pooled = "  ".join(f"{name} {tally.acceptance_length:.3f}" for name, tally in by_set.items())
    print(f"{label:40s} pooled {total.acceptance_length:.3f}  {pooled}\n    {kinds}")
    for source, drafted in sorted(total.drafted.items()):
        print(f"    {source}: drafted {drafted}, accepted {total.accepted[source]}")
    if calibration:
        for score, hits, nodes in (total.bins[tenth] for tenth in sorted(total.bins)):
            print(f"    score {score / nodes:.2f}: accepted {hits / nodes:.2f} of {nodes}")


def _replay_mix(
    traces: list[dict[str, Any]], mix: str, nodes: int, arguments: argparse.Namespace
) -> Coroutine[Any, Any, dict[str, Tally]]:
    learned = {"model": arguments.model, "ngram_table": arguments.ngram_table}
    return replay_all(traces, tuple(mix.split(",")), nodes, **learned)


def main() -> None:
    parser = argparse.ArgumentParser(description="Acceptance length on recorded texts.")
    parser.add_argument("traces", type=Path)
    parser.add_argument("--nodes", default="7,15", help="tree sizes, comma-separated")
    parser.add_argument(
        "--sources", nargs="+", default=MIXES, help="runs, each its sources, comma-separated"
    )
    parser.add_argument("--model", help="directory of the target, for learned sources")
    parser.add_argument("--ngram-table", help="as of the candidates service")
    parser.add_argument("--calibration", action="store_true", help="print scores against facts")
    arguments = parser.parse_args()
    traces = json.loads(arguments.traces.read_text())
    for mix in arguments.sources:
        for nodes in arguments.nodes.split(","):
            tallies = asyncio.run(_replay_mix(traces, mix, int(nodes), arguments))
            report(f"{mix} {nodes} nodes", tallies, calibration=arguments.calibration)


if __name__ == "__main__":
    main()
