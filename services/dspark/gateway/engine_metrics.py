"""What the gateway passes on of its schedulers: what routers and dashboards of vLLM look for."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from dspark.gateway.token_source import SchedulerStatus
from dspark.metrics.families import Catalogue

FAMILIES = Catalogue()
ENGINE = "0"
LABELS = ("model_name", "engine")
VLLM = FAMILIES.prefixed("vllm:", LABELS)

RUNNING = VLLM.gauge("num_requests_running", "Requests on a verifier.")
WAITING = VLLM.gauge("num_requests_waiting", "Requests in the queue.")
KV_USAGE = VLLM.gauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.")
CACHE_CONFIG = VLLM.gauge(
    "cache_config_info",
    "1, with the tokens of a KV block and the number of blocks.",
    ("block_size", "num_gpu_blocks"),
)
PREEMPTIONS = VLLM.counter("num_preemptions", "Preemptions.")
CACHE_QUERIES = VLLM.counter("prefix_cache_queries", "Prompt tokens looked up.")
CACHE_HITS = VLLM.counter("prefix_cache_hits", "Prompt tokens found.")
DRAFTS = VLLM.counter("spec_decode_num_drafts", "Verify passes.")
DRAFT_TOKENS = VLLM.counter("spec_decode_num_draft_tokens", "Draft tokens verified.")
ACCEPTED_TOKENS = VLLM.counter("spec_decode_num_accepted_tokens", "Draft tokens kept.")
ACCEPTED_PER_POSITION = VLLM.counter(
    "spec_decode_num_accepted_tokens_per_pos",
    "Draft tokens kept by position, 0 being the first; deep ones are counted together, as in 16+.",
    ("position",),
)
SOURCE_DRAFT_TOKENS = FAMILIES.counter(
    "dspark_source_draft_tokens", "Draft tokens verified, by source.", ("model_name", "source")
)
SOURCE_ACCEPTED_TOKENS = FAMILIES.counter(
    "dspark_source_accepted_tokens", "Draft tokens kept, by source.", ("model_name", "source")
)


def collect(status: SchedulerStatus, model_name: str) -> Iterable[Metric]:
    labels = (model_name, ENGINE)
    used = status.num_blocks - status.num_free_blocks
    usage = used / status.num_blocks if status.num_blocks else 0.0
    speculation = status.speculation
    for family, value in (
        (RUNNING, status.num_running),
        (WAITING, status.num_waiting),
        (KV_USAGE, usage),
        (PREEMPTIONS, status.num_preemptions),
        (CACHE_QUERIES, status.prompt_tokens),
        (CACHE_HITS, status.cached_tokens),
        (DRAFTS, speculation.rounds),
        (DRAFT_TOKENS, speculation.drafted),
        (ACCEPTED_TOKENS, speculation.accepted),
    ):
        yield family.one(value, *labels)
    yield CACHE_CONFIG.one(1, *labels, str(status.block_size), str(status.num_blocks))
    yield ACCEPTED_PER_POSITION.many(
        ((*labels, position), count) for position, count in _positions(status.accepted_by_position)
    )
    sources = sorted(speculation.sources.items())
    yield SOURCE_DRAFT_TOKENS.many(((model_name, name), n.drafted) for name, n in sources)
    yield SOURCE_ACCEPTED_TOKENS.many(((model_name, name), n.accepted) for name, n in sources)


def _positions(counts: tuple[int, ...]) -> Iterable[tuple[str, int]]:
    last = len(counts) - 1
    return ((f"{index}+" if index == last else str(index), n) for index, n in enumerate(counts))
