"""Which of the proposals of a recorded run were right: the run's own texts tell (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dspark.cli.simulate.recorded_guesses import RecordedProposal, RecordedText
from dspark.token_tree import TokenTree


def texts_of(
    lines: Iterable[Mapping[str, Any]], sources: Sequence[str]
) -> tuple[RecordedText, ...]:
    """The proposals of each request that asked for any, judged to its end.

    Nodes that were proposed and not verified are judged as well. ``sources`` are those that masks
    count in the result.
    """
    prompts: dict[str, int] = {}
    tokens: defaultdict[str, dict[int, int]] = defaultdict(dict)
    asked: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["kind"] == "step":
            prompts.update(line["starts"])
            for request_id, base_len, committed in line["commits"]:
                tokens[request_id].update(enumerate(committed, start=base_len))
        elif line["kind"] == "propose":
            for item in line["items"]:
                asked[item["id"]].append(item)
    return tuple(
        RecordedText(tuple(_judged(item, tokens[name], prompts[name], sources) for item in items))
        for name, items in asked.items()
        if name in prompts
    )


def _judged(
    item: Mapping[str, Any], tokens: Mapping[int, int], num_prompt: int, sources: Sequence[str]
) -> RecordedProposal:
    tree = TokenTree(tuple(item["token_ids"]), tuple(item["parents"]))
    path: list[int] = []
    entry, position = 0, item["base_len"]
    while tree and (child := tree.children[entry].get(tokens.get(position, -1))) is not None:
        path.append(child - 1)
        entry, position = child, position + 1
    return RecordedProposal(
        max(item["base_len"] - num_prompt, 0),
        tree.parents,
        tuple(_renamed(mask, item["sources"], sources) for mask in item["masks"]),
        tuple(item["scores"]),
        tuple(path),
    )


def _renamed(mask: int, names: Sequence[str], sources: Sequence[str]) -> int:
    """The mask with the bits that these names have among ``sources``."""
    return sum(
        1 << sources.index(name)
        for bit, name in enumerate(names)
        if mask >> bit & 1 and name in sources
    )
