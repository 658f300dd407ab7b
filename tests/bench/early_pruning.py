"""What early pruning would drop and lose by layer, and what a pruned pass saves.

    python tests/bench/early_pruning.py --model DIR --prompts PROMPTS.json

First the prompts are answered with trees from the default sources, all passes whole. In each pass
every layer is asked what it says. Then a judge for each layer goes through the passes in random
orders, learns from each, and, once it is ready, tells before that which nodes it would drop: which
share of all they are, and which share of the accepted tokens that would lose. Then passes are
timed, whole and with that share of the nodes dropped, in turns: processor time, the least of each.
On one thread, which is the default, that does not depend on what else the machine does.
Prints one line for each temperature and layer, and one for each number of rows and layer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources
from dspark.cli.benchmark.plan import load_prompts
from dspark.cli.models.model_tokenizer import ModelTokenizer
from dspark.sampling import SamplingParams
from dspark.step import SequenceAdmission, SequenceWork, WorkResult
from dspark.verifier.admission import Limits as RequestLimits
from dspark.verifier.admission import new_sequence
from dspark.verifier.batch_builder import build_batch
from dspark.verifier.config import VerifierConfig
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import LoadedModel
from dspark.verifier.model.early_pruning import MAX_LOSS
from dspark.verifier.model.loader import load_model
from dspark.verifier.model.target_model import CutRunner
from dspark.verifier.pruning.cut import Cut, CuttingRunner, Rows
from dspark.verifier.pruning.forest import Forest, forest_of
from dspark.verifier.pruning.judge import LearntJudge
from dspark.verifier.pruning.likely_tokens import LikelyTokens
from dspark.verifier.pruning.pruner import PruningBooks
from dspark.verifier.pruning.restricted_logits import accepted_paths, num_lost, stakes_of
from dspark.verifier.scheduled_work import ScheduledWork
from harness.scripted_drafters import tree_of
from harness.whole_stack import Job, whole_stack

BLOCK_SIZE = 16
CONTEXT = 128


@dataclass
class Seen:
    """One pass: what each layer said of its tokens, and which nodes were accepted."""

    forest: Forest
    token_ids: NDArray[np.int64]
    told: dict[int, NDArray[np.float32]]
    paths: list[list[int]]


class Listening:
    """A pruner that drops nothing and asks every layer in every pass."""

    def __init__(self, runner: CuttingRunner, layers: Sequence[int]) -> None:
        self.books = PruningBooks()
        self.seen: list[Seen] = []
        self.runner = runner
        self.layers = layers
        self.likely = LikelyTokens()
        self.current: Seen | None = None

    def plan(self, entries: Sequence[ScheduledWork]) -> AskingPass | None:
        self.current = None
        if not any(len(entry.tree) for entry in entries):
            return None
        forest = forest_of(entries)
        self.current = Seen(forest, self.likely.together_with(forest.token_ids), {}, [])
        return AskingPass(self, self.current, entries)

    def learn(self, entries: Sequence[ScheduledWork], results: Sequence[WorkResult]) -> None:
        for result in results:
            self.likely.note(result.committed_token_ids)
        if self.current is not None:
            self.current.paths = accepted_paths(entries, results)
            self.seen.append(self.current)
        self.current = None


class Enough(Exception):
    """A layer said what it knows; the rest of its pass is not wanted."""


class AskingPass:
    """A pass that also stops behind each layer; only the last time it goes on to the end."""

    def __init__(self, owner: Listening, seen: Seen, entries: Sequence[ScheduledWork]) -> None:
        self._owner = owner
        self._seen = seen
        self._entries = entries

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        for layer in self._owner.layers[:-1]:
            with contextlib.suppress(Enough):
                self._run(batch, layer, is_last=False)
        return self._run(batch, self._owner.layers[-1], is_last=True)

    def _run(self, batch: ForwardBatch, layer: int, *, is_last: bool) -> NDArray[np.float32]:
        forest = self._seen.forest
        token_ids = self._seen.token_ids
        probes = np.array([parent.row for parent in forest.parents], dtype=np.int64)

        def choose(told: NDArray[np.float32]) -> Rows:
            self._seen.told[layer] = told
            if not is_last:
                raise Enough
            return np.arange(forest.num_rows)

        return self._owner.runner.forward_cut(batch, Cut(layer, probes, token_ids, choose))

    def kept_nodes(self) -> list[list[int]]:
        return [list(range(len(entry.tree))) for entry in self._entries]


async def listen(
    loaded: LoadedModel,
    config: VerifierConfig,
    jobs: Sequence[Job],
    nodes: int,
    concurrency: int,
    layers: Sequence[int],
) -> list[Seen]:
    """Answer the jobs, ``concurrency`` at a time, and return what the passes showed."""
    listening = Listening(cut_runner(loaded), layers)
    sources = build_sources(CandidatesConfig(model=config.model))
    load = lambda *_: dataclasses.replace(loaded, pruner=listening)  # noqa: E731
    slots = asyncio.Semaphore(concurrency)
    async with whole_stack(load, config, sources, policy="fixed", num_draft_tokens=nodes) as stack:

        async def run(job: Job) -> None:
            async with slots:
                await stack.run(job)

        await asyncio.gather(*map(run, jobs))
    return listening.seen


def cut_runner(loaded: LoadedModel) -> CutRunner:
    runner = loaded.runner
    return CutRunner(runner.model, runner.kv_cache)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Found:
    """Of the passes that came once the judge was ready; shares of nodes and accepted tokens."""

    num_nodes: int
    num_accepted: int
    dropped: float
    lost: float


def tried(seen: Sequence[Seen], layer: int) -> tuple[Found, LearntJudge]:
    """Each pass is judged by what was learnt from those before it, then learnt from."""
    judge = LearntJudge(MAX_LOSS)
    nodes = accepted = dropped = lost = 0
    for one in seen:
        was_ready = judge.is_ready
        stays = one.forest.closed(judge.hopeless(one.forest, one.token_ids, one.told[layer]))
        judge.learn(one.forest, stakes_of(one.paths, len(one.forest)))
        if was_ready:
            nodes += len(stays)
            dropped += int((~stays).sum())
            accepted += sum(map(len, one.paths))
            lost += sum(num_lost(path, stays) for path in one.paths)
    return Found(nodes, accepted, dropped / max(nodes, 1), lost / max(accepted, 1)), judge


def tried_often(seen: Sequence[Seen], layer: int, orders: int) -> tuple[Found, LearntJudge]:
    """Means over random orders of the passes."""
    found = []
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(len(seen))
        one, judge = tried([seen[index] for index in order], layer)
        found.append(dataclasses.astuple(one))
    nodes, accepted, dropped, lost = np.mean(found, axis=0).tolist()
    return Found(round(nodes), round(accepted), dropped, lost), judge


def pass_of(rows: int, nodes: int) -> list[ScheduledWork]:
    """Sequences with an anchor and ``nodes`` children of it each, ``rows`` in all."""
    limits = RequestLimits(49_000, 10**6, 10**6, frozenset())
    entries = []
    blocks_each = -(-(CONTEXT + nodes) // BLOCK_SIZE)
    for index in range(rows // (nodes + 1)):
        name = str(index)
        sampling = SamplingParams(temperature=0.0, max_tokens=500)
        admission = SequenceAdmission(name, 0, (1,) * CONTEXT, 1, sampling)
        sequence = new_sequence(admission, limits, BLOCK_SIZE)
        sequence.table.append(list(range(index * blocks_each, (index + 1) * blocks_each)))
        tree = tree_of([100 + node for node in range(nodes)], [0] * nodes)
        work = SequenceWork(name, 0, CONTEXT, 1, tree)
        entry = ScheduledWork(sequence, work, CONTEXT - 1, CONTEXT)
        entry.set_tree(tree, max_nodes=nodes)
        entries.append(entry)
    return entries


def times_ms(
    loaded: LoadedModel,
    judge: LearntJudge,
    rows: int,
    nodes: int,
    layer: int,
    dropped: float,
    repeats: int,
) -> tuple[float, float]:
    """The least times of a whole pass and of one from which a share of the nodes leaves."""
    entries = pass_of(rows, nodes)
    forest, batch, cutting = forest_of(entries), build_batch(entries), cut_runner(loaded)
    token_ids = np.unique(np.concatenate([forest.token_ids, np.arange(1000, 1128)]))
    probes = np.array([parent.row for parent in forest.parents], dtype=np.int64)
    leaves = np.random.default_rng(0).random(len(forest)).argsort() < dropped * len(forest)

    def choose(told: NDArray[np.float32]) -> Rows:
        judge.hopeless(forest, token_ids, told)
        return forest.rows_without(forest.closed(leaves))

    cut = Cut(layer, probes, token_ids, choose)
    whole, pruned = [], []
    for _ in range(repeats):
        started = time.process_time()
        loaded.runner.forward(batch)
        between = time.process_time()
        cutting.forward_cut(batch, cut)
        pruned.append((time.process_time() - between) * 1e3)
        whole.append((between - started) * 1e3)
    return min(whole), min(pruned)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="what early pruning drops, loses and saves")
    parser.add_argument("--model", required=True, help="model directory")
    parser.add_argument("--prompts", type=Path, required=True, help="as for dspark bench")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--nodes", type=int, default=15, help="of each tree")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--temperatures", default="0")
    parser.add_argument("--layers", type=numbers, default=[8, 15, 22])
    parser.add_argument("--rows", type=numbers, default=[16, 32, 64, 128])
    parser.add_argument("--orders", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--weight-dtype", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    config = VerifierConfig(
        model=options.model,
        listen="127.0.0.1:0",
        weight_dtype=options.weight_dtype,
        threads=options.threads,
        early_pruning="off",
        block_size=BLOCK_SIZE,
        kv_tokens=32_768,
    )
    loaded = load_model(config, lambda line: print(line, file=sys.stderr))
    print(f"{loaded.kernel_class} {loaded.exactness}, loss at most {MAX_LOSS:.0%}\n")
    tokenizer = ModelTokenizer(Path(options.model))
    prompts = [tokenizer.encode(each.prompt) for each in load_prompts(options.prompts)]
    shares: dict[int, float] = {}
    judges: dict[int, LearntJudge] = {}
    print("| temperature | layer | nodes | accepted | dropped | lost |\n|---|---|---|---|---|---|")
    for temperature in map(float, options.temperatures.split(",")):
        jobs = [
            Job(
                tuple(prompt),
                SamplingParams(temperature, seed=seed, max_tokens=options.max_tokens),
            )
            for seed, prompt in enumerate(prompts)
        ]
        shape = (options.nodes, options.concurrency, options.layers)
        seen = asyncio.run(listen(loaded, config, jobs, *shape))
        for layer in options.layers:
            found, judges[layer] = tried_often(seen, layer, options.orders)
            shares.setdefault(layer, found.dropped)
            print(
                f"| {temperature} | {layer} | {found.num_nodes} | {found.num_accepted} "
                f"| {found.dropped:.1%} | {found.lost:.1%} |"
            )
    print("\n| rows | layer | whole ms | pruned ms | saved |\n|---|---|---|---|---|")
    for rows in options.rows:
        for layer in options.layers:
            whole, pruned = times_ms(
                loaded,
                judges[layer],
                rows,
                options.nodes,
                layer,
                shares[layer],
                options.repeats,
            )
            print(f"| {rows} | {layer} | {whole:.1f} | {pruned:.1f} | {1 - pruned / whole:.1%} |")


if __name__ == "__main__":
    main()
