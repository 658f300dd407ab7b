"""A sequence on a simulated verifier: its counters, and the walk through a tree."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.simulate.guesses import RIGHT
from dspark.sampling import FinishReason
from dspark.step import SequenceAdmission, SequenceWork, WorkResult, WorkStatus
from dspark.token_tree import TokenTree


@dataclass(slots=True)
class SimulatedSequence:
    """Known and computed tokens are counted; which they are is known beforehand."""

    admission: SequenceAdmission
    num_tokens: int
    num_computed: int

    @property
    def num_pending(self) -> int:
        return self.num_tokens - self.num_computed

    @property
    def num_remaining(self) -> int:
        """Tokens that may still be generated."""
        admission = self.admission
        limit = admission.num_prompt_tokens + admission.sampling.max_tokens
        return limit - self.num_tokens

    def compute(self, work: SequenceWork, tree: TokenTree) -> WorkResult:
        """Compute known tokens; verify the tree and commit if that reaches the last one."""
        self.num_computed += min(work.max_pending_rows, self.num_pending)
        committed: tuple[int, ...] = ()
        accepted: tuple[int, ...] = ()
        if not self.num_pending:
            path = accepted_path(tree)
            committed = (RIGHT,) * min(len(path) + 1, self.num_remaining)
            accepted = path[: len(committed)]
            self.num_tokens += len(committed)
            # The K/V of accepted nodes is in place; that of the last token is not.
            self.num_computed = self.num_tokens - 1
        return WorkResult(
            work.request_id,
            work.epoch,
            WorkStatus.DONE,
            num_computed_tokens=self.num_computed,
            committed_token_ids=committed,
            accepted_nodes=accepted,
            finish_reason=None if self.num_remaining > 0 else FinishReason.LENGTH,
        )


def accepted_path(tree: TokenTree) -> tuple[int, ...]:
    """Entries of the nodes that the target draws, from the anchor on."""
    path: list[int] = []
    entry = 0
    while tree and (child := tree.children[entry].get(RIGHT)) is not None:
        path.append(child)
        entry = child
    return tuple(path)
