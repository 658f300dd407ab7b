"""One step between scheduler and verifier, as plain values (wire form: verifier_service.proto)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from dspark.features import Features
from dspark.kv_blocks import KvLayout
from dspark.logprobs import TokenLogprobs
from dspark.sampling import FinishReason, SamplingParams
from dspark.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class SequenceRef:
    """One incarnation of a request on a worker."""

    request_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class SequenceAdmission:
    """A request's data, sent once: prompt, then tokens committed before this admission."""

    request_id: str
    epoch: int
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    sampling: SamplingParams
    cache_salt: str = ""
    use_prefix_cache: bool = True


@dataclass(frozen=True, slots=True)
class SequenceWork:
    """Compute up to ``max_pending_rows`` known tokens; verify ``tree`` if the last was reached.

    Of the tokens whose K/V is in place afterwards, the features of the last ``num_features`` that
    this step computed are wanted. The verifier may add ``max_forced_nodes`` nodes of tokens that
    the sequence's grammar leaves no choice about.
    """

    request_id: str
    epoch: int
    base_len: int
    max_pending_rows: int
    tree: TokenTree = field(default_factory=TokenTree)
    num_features: int = 0
    max_forced_nodes: int = 0


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step asks of a verifier; releases are applied first, then admissions, then work.

    ``traceparents`` name the step in the trace of each request that is traced. ``compute_ahead``
    says that the next step is expected to go on with the same sequences, without trees.
    ``feature_layers``, ascending, are those of the features that the work wants.
    """

    scheduler_id: str
    step_id: int
    releases: tuple[SequenceRef, ...] = ()
    admissions: tuple[SequenceAdmission, ...] = ()
    work: tuple[SequenceWork, ...] = ()
    top_k: int = 0
    traceparents: tuple[str, ...] = ()
    compute_ahead: bool = False
    feature_layers: tuple[int, ...] = ()


class WorkStatus(Enum):
    """What became of a work entry."""

    DONE = 1
    STALE = 2
    NOT_FOUND = 3
    NO_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What a step did for one sequence.

    ``committed_token_ids`` is the accepted nodes and one bonus token, cut where the sequence ends.
    ``accepted_nodes`` numbers the work's tree nodes from 1. ``top_token_ids`` has ``top_k``
    entries for each entry of ``row_token_ids``, the rows of the sequence's step before.
    ``known_epoch`` is what a new admission's epoch must exceed; 0 where there is nothing to exceed,
    and for work that was done. ``logprobs`` are of the committed tokens, ``prompt_logprobs``
    of the prompt from its second token on; both are empty unless asked for. Of the
    ``num_forced_nodes`` that the verifier added, which have no number, ``num_accepted_forced`` were
    accepted. ``no_token_left`` says of an ERROR that what the request asks for leaves no token to
    draw.
    """

    request_id: str
    epoch: int
    status: WorkStatus
    num_computed_tokens: int = 0
    committed_token_ids: tuple[int, ...] = ()
    accepted_nodes: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    row_token_ids: tuple[int, ...] = ()
    top_token_ids: tuple[int, ...] = ()
    known_epoch: int = 0
    features: Features | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    num_forced_nodes: int = 0
    num_accepted_forced: int = 0
    no_token_left: bool = False


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The reply to a StepPlan; ``cached_tokens`` is each admitted request's prefix-cache hit.

    ``num_ahead_rows`` of ``num_rows`` were computed ahead, in a pass of their own; ``ahead_ns`` is
    the part of ``forward_ns`` that was over when the step arrived. ``num_pruned_rows`` left the
    pass before its last layer. ``is_ending`` says that the verifier is going to stop.
    """

    step_id: int
    cached_tokens: dict[str, int] = field(default_factory=dict)
    results: tuple[WorkResult, ...] = ()
    queue_ns: int = 0
    forward_ns: int = 0
    total_ns: int = 0
    num_rows: int = 0
    num_free_blocks: int = 0
    ahead_ns: int = 0
    num_ahead_rows: int = 0
    num_pruned_rows: int = 0
    is_ending: bool = False


class VerifyCost(NamedTuple):
    """The measured time of a pass whose rows attend to ``context`` tokens; 0 is not known."""

    rows: int
    milliseconds: float
    context: int = 0


@dataclass(frozen=True, slots=True)
class VerifierInfo:
    """What a verifier says of itself.

    ``verify_costs`` goes by context, then rows; it is monotone in both. ``computes_ahead`` says
    that ``StepPlan.compute_ahead`` has an effect. ``feature_layers`` are those it can export.
    ``instance_id`` is another one after each start, ``is_ending`` says that the verifier is going
    to stop, and without a ``kv_layout`` no K/V leaves it. ``can_structure`` says that sequences
    with structured output can be admitted.
    """

    model_id: str
    model_digest: str
    vocab_size: int
    max_model_len: int
    eos_token_ids: frozenset[int]
    block_size: int
    num_blocks: int
    max_step_rows: int
    exactness: str
    kernel_class: str
    dtype: str
    device: str
    verify_costs: tuple[VerifyCost, ...]
    computes_ahead: bool = False
    feature_layers: tuple[int, ...] = ()
    hidden_size: int = 0
    instance_id: str = ""
    is_ending: bool = False
    kv_layout: KvLayout | None = None
    can_structure: bool = False

    @property
    def arithmetic(self) -> tuple[str, str, str, int]:
        """Verifiers in which this is equal generate the same tokens of a request."""
        return self.model_digest, self.dtype, self.kernel_class, self.vocab_size

    @property
    def arithmetic_name(self) -> str:
        """The same as one word, for who passes it on."""
        return "/".join(map(str, self.arithmetic))

    @property
    def pool_tokens(self) -> int:
        """The number of tokens that the KV pool holds."""
        return self.block_size * self.num_blocks
