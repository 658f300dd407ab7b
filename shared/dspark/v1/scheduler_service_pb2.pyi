from dspark.v1 import sampling_pb2 as _sampling_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DrainWorkerRequest(_message.Message):
    __slots__ = ("worker", "resume")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    worker: str
    resume: bool
    def __init__(self, worker: _Optional[str] = ..., resume: _Optional[bool] = ...) -> None: ...

class DrainWorkerResponse(_message.Message):
    __slots__ = ("num_requests",)
    NUM_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    num_requests: int
    def __init__(self, num_requests: _Optional[int] = ...) -> None: ...

class GetSchedulerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSchedulerInfoResponse(_message.Message):
    __slots__ = ("model_id", "model_digest", "vocab_size", "max_model_len", "max_pool_tokens", "eos_token_ids", "sources", "exactness", "policy")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_LEN_FIELD_NUMBER: _ClassVar[int]
    MAX_POOL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    EXACTNESS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    model_digest: str
    vocab_size: int
    max_model_len: int
    max_pool_tokens: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    sources: _containers.RepeatedScalarFieldContainer[str]
    exactness: str
    policy: str
    def __init__(self, model_id: _Optional[str] = ..., model_digest: _Optional[str] = ..., vocab_size: _Optional[int] = ..., max_model_len: _Optional[int] = ..., max_pool_tokens: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., sources: _Optional[_Iterable[str]] = ..., exactness: _Optional[str] = ..., policy: _Optional[str] = ...) -> None: ...

class SchedulerServiceGenerateRequest(_message.Message):
    __slots__ = ("request_id", "prompt_token_ids", "sampling", "speculation", "cache_salt", "priority", "use_prefix_cache", "committed_token_ids", "arithmetic", "request_class", "tenant")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    USE_PREFIX_CACHE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    ARITHMETIC_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CLASS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    sampling: _sampling_pb2.SamplingParams
    speculation: _sampling_pb2.SpeculationParams
    cache_salt: str
    priority: int
    use_prefix_cache: bool
    committed_token_ids: _containers.RepeatedScalarFieldContainer[int]
    arithmetic: str
    request_class: _sampling_pb2.RequestClass
    tenant: str
    def __init__(self, request_id: _Optional[str] = ..., prompt_token_ids: _Optional[_Iterable[int]] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., speculation: _Optional[_Union[_sampling_pb2.SpeculationParams, _Mapping]] = ..., cache_salt: _Optional[str] = ..., priority: _Optional[int] = ..., use_prefix_cache: _Optional[bool] = ..., committed_token_ids: _Optional[_Iterable[int]] = ..., arithmetic: _Optional[str] = ..., request_class: _Optional[_Union[_sampling_pb2.RequestClass, str]] = ..., tenant: _Optional[str] = ...) -> None: ...

class SchedulerServiceGenerateResponse(_message.Message):
    __slots__ = ("chunk", "complete")
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    chunk: TokenChunk
    complete: TokensComplete
    def __init__(self, chunk: _Optional[_Union[TokenChunk, _Mapping]] = ..., complete: _Optional[_Union[TokensComplete, _Mapping]] = ...) -> None: ...

class TokenChunk(_message.Message):
    __slots__ = ("token_ids", "num_accepted", "arithmetic", "logprobs", "prompt_logprobs")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    NUM_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ARITHMETIC_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    num_accepted: int
    arithmetic: str
    logprobs: _sampling_pb2.Logprobs
    prompt_logprobs: _sampling_pb2.Logprobs
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., num_accepted: _Optional[int] = ..., arithmetic: _Optional[str] = ..., logprobs: _Optional[_Union[_sampling_pb2.Logprobs, _Mapping]] = ..., prompt_logprobs: _Optional[_Union[_sampling_pb2.Logprobs, _Mapping]] = ...) -> None: ...

class TokensComplete(_message.Message):
    __slots__ = ("finish_reason", "stop_token_id", "usage", "speculation", "steps", "times")
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    finish_reason: _sampling_pb2.FinishReason
    stop_token_id: int
    usage: _sampling_pb2.Usage
    speculation: _sampling_pb2.SpeculationStats
    steps: _sampling_pb2.StepBreakdown
    times: _sampling_pb2.RequestTimes
    def __init__(self, finish_reason: _Optional[_Union[_sampling_pb2.FinishReason, str]] = ..., stop_token_id: _Optional[int] = ..., usage: _Optional[_Union[_sampling_pb2.Usage, _Mapping]] = ..., speculation: _Optional[_Union[_sampling_pb2.SpeculationStats, _Mapping]] = ..., steps: _Optional[_Union[_sampling_pb2.StepBreakdown, _Mapping]] = ..., times: _Optional[_Union[_sampling_pb2.RequestTimes, _Mapping]] = ...) -> None: ...

class StopGenerationRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class StopGenerationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSchedulerStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSchedulerStatusResponse(_message.Message):
    __slots__ = ("num_running", "num_waiting", "num_free_blocks", "num_blocks", "num_steps", "num_preemptions", "generation_tokens", "prompt_tokens", "speculation", "cached_tokens", "block_size", "accepted_by_position")
    NUM_RUNNING_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    NUM_FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NUM_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    NUM_PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_BY_POSITION_FIELD_NUMBER: _ClassVar[int]
    num_running: int
    num_waiting: int
    num_free_blocks: int
    num_blocks: int
    num_steps: int
    num_preemptions: int
    generation_tokens: int
    prompt_tokens: int
    speculation: _sampling_pb2.SpeculationStats
    cached_tokens: int
    block_size: int
    accepted_by_position: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, num_running: _Optional[int] = ..., num_waiting: _Optional[int] = ..., num_free_blocks: _Optional[int] = ..., num_blocks: _Optional[int] = ..., num_steps: _Optional[int] = ..., num_preemptions: _Optional[int] = ..., generation_tokens: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., speculation: _Optional[_Union[_sampling_pb2.SpeculationStats, _Mapping]] = ..., cached_tokens: _Optional[int] = ..., block_size: _Optional[int] = ..., accepted_by_position: _Optional[_Iterable[int]] = ...) -> None: ...
