from dspark.v1 import features_pb2 as _features_pb2
from dspark.v1 import sampling_pb2 as _sampling_pb2
from dspark.v1 import token_tree_pb2 as _token_tree_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORK_STATUS_UNSPECIFIED: _ClassVar[WorkStatus]
    WORK_STATUS_DONE: _ClassVar[WorkStatus]
    WORK_STATUS_STALE: _ClassVar[WorkStatus]
    WORK_STATUS_NOT_FOUND: _ClassVar[WorkStatus]
    WORK_STATUS_NO_BLOCKS: _ClassVar[WorkStatus]
WORK_STATUS_UNSPECIFIED: WorkStatus
WORK_STATUS_DONE: WorkStatus
WORK_STATUS_STALE: WorkStatus
WORK_STATUS_NOT_FOUND: WorkStatus
WORK_STATUS_NO_BLOCKS: WorkStatus

class StreamStepRequest(_message.Message):
    __slots__ = ("step",)
    STEP_FIELD_NUMBER: _ClassVar[int]
    step: StepRequest
    def __init__(self, step: _Optional[_Union[StepRequest, _Mapping]] = ...) -> None: ...

class StreamStepResponse(_message.Message):
    __slots__ = ("step",)
    STEP_FIELD_NUMBER: _ClassVar[int]
    step: StepResponse
    def __init__(self, step: _Optional[_Union[StepResponse, _Mapping]] = ...) -> None: ...

class GetVerifierInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetVerifierInfoResponse(_message.Message):
    __slots__ = ("model_id", "model_digest", "vocab_size", "max_model_len", "eos_token_ids", "block_size", "num_blocks", "max_step_rows", "exactness", "kernel_class", "dtype", "device", "verify_costs", "computes_ahead", "feature_layers", "hidden_size", "instance_id", "is_ending", "kv_layout", "can_structure")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_LEN_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MAX_STEP_ROWS_FIELD_NUMBER: _ClassVar[int]
    EXACTNESS_FIELD_NUMBER: _ClassVar[int]
    KERNEL_CLASS_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    VERIFY_COSTS_FIELD_NUMBER: _ClassVar[int]
    COMPUTES_AHEAD_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LAYERS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_SIZE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_ENDING_FIELD_NUMBER: _ClassVar[int]
    KV_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    CAN_STRUCTURE_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    model_digest: str
    vocab_size: int
    max_model_len: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    block_size: int
    num_blocks: int
    max_step_rows: int
    exactness: str
    kernel_class: str
    dtype: str
    device: str
    verify_costs: _containers.RepeatedCompositeFieldContainer[VerifyCost]
    computes_ahead: bool
    feature_layers: _containers.RepeatedScalarFieldContainer[int]
    hidden_size: int
    instance_id: str
    is_ending: bool
    kv_layout: KvLayout
    can_structure: bool
    def __init__(self, model_id: _Optional[str] = ..., model_digest: _Optional[str] = ..., vocab_size: _Optional[int] = ..., max_model_len: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., block_size: _Optional[int] = ..., num_blocks: _Optional[int] = ..., max_step_rows: _Optional[int] = ..., exactness: _Optional[str] = ..., kernel_class: _Optional[str] = ..., dtype: _Optional[str] = ..., device: _Optional[str] = ..., verify_costs: _Optional[_Iterable[_Union[VerifyCost, _Mapping]]] = ..., computes_ahead: _Optional[bool] = ..., feature_layers: _Optional[_Iterable[int]] = ..., hidden_size: _Optional[int] = ..., instance_id: _Optional[str] = ..., is_ending: _Optional[bool] = ..., kv_layout: _Optional[_Union[KvLayout, _Mapping]] = ..., can_structure: _Optional[bool] = ...) -> None: ...

class KvLayout(_message.Message):
    __slots__ = ("dtype", "num_layers", "block_size", "num_kv_heads", "head_dim", "block_bytes")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    NUM_LAYERS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_KV_HEADS_FIELD_NUMBER: _ClassVar[int]
    HEAD_DIM_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    num_layers: int
    block_size: int
    num_kv_heads: int
    head_dim: int
    block_bytes: int
    def __init__(self, dtype: _Optional[str] = ..., num_layers: _Optional[int] = ..., block_size: _Optional[int] = ..., num_kv_heads: _Optional[int] = ..., head_dim: _Optional[int] = ..., block_bytes: _Optional[int] = ...) -> None: ...

class BlockType(_message.Message):
    __slots__ = ("model_digest", "kernel_class", "layout")
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    KERNEL_CLASS_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    model_digest: str
    kernel_class: str
    layout: KvLayout
    def __init__(self, model_digest: _Optional[str] = ..., kernel_class: _Optional[str] = ..., layout: _Optional[_Union[KvLayout, _Mapping]] = ...) -> None: ...

class ExportBlocksRequest(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: SequenceRef
    def __init__(self, sequence: _Optional[_Union[SequenceRef, _Mapping]] = ...) -> None: ...

class ExportBlocksResponse(_message.Message):
    __slots__ = ("type", "blocks")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    type: BlockType
    blocks: KvBlocks
    def __init__(self, type: _Optional[_Union[BlockType, _Mapping]] = ..., blocks: _Optional[_Union[KvBlocks, _Mapping]] = ...) -> None: ...

class KvBlocks(_message.Message):
    __slots__ = ("first_block", "data", "crc32")
    FIRST_BLOCK_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    first_block: int
    data: bytes
    crc32: int
    def __init__(self, first_block: _Optional[int] = ..., data: _Optional[bytes] = ..., crc32: _Optional[int] = ...) -> None: ...

class ImportBlocksRequest(_message.Message):
    __slots__ = ("head", "blocks")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    head: ImportHead
    blocks: KvBlocks
    def __init__(self, head: _Optional[_Union[ImportHead, _Mapping]] = ..., blocks: _Optional[_Union[KvBlocks, _Mapping]] = ...) -> None: ...

class ImportHead(_message.Message):
    __slots__ = ("type", "token_ids", "cache_salt")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    type: BlockType
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    cache_salt: str
    def __init__(self, type: _Optional[_Union[BlockType, _Mapping]] = ..., token_ids: _Optional[_Iterable[int]] = ..., cache_salt: _Optional[str] = ...) -> None: ...

class ImportBlocksResponse(_message.Message):
    __slots__ = ("num_tokens", "is_full")
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    IS_FULL_FIELD_NUMBER: _ClassVar[int]
    num_tokens: int
    is_full: bool
    def __init__(self, num_tokens: _Optional[int] = ..., is_full: _Optional[bool] = ...) -> None: ...

class VerifyCost(_message.Message):
    __slots__ = ("rows", "milliseconds", "context")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    rows: int
    milliseconds: float
    context: int
    def __init__(self, rows: _Optional[int] = ..., milliseconds: _Optional[float] = ..., context: _Optional[int] = ...) -> None: ...

class StepRequest(_message.Message):
    __slots__ = ("scheduler_id", "step_id", "releases", "admissions", "work", "top_k", "traceparents", "compute_ahead", "feature_layers")
    SCHEDULER_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    ADMISSIONS_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENTS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_AHEAD_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LAYERS_FIELD_NUMBER: _ClassVar[int]
    scheduler_id: str
    step_id: int
    releases: _containers.RepeatedCompositeFieldContainer[SequenceRef]
    admissions: _containers.RepeatedCompositeFieldContainer[SequenceAdmission]
    work: _containers.RepeatedCompositeFieldContainer[SequenceWork]
    top_k: int
    traceparents: _containers.RepeatedScalarFieldContainer[str]
    compute_ahead: bool
    feature_layers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, scheduler_id: _Optional[str] = ..., step_id: _Optional[int] = ..., releases: _Optional[_Iterable[_Union[SequenceRef, _Mapping]]] = ..., admissions: _Optional[_Iterable[_Union[SequenceAdmission, _Mapping]]] = ..., work: _Optional[_Iterable[_Union[SequenceWork, _Mapping]]] = ..., top_k: _Optional[int] = ..., traceparents: _Optional[_Iterable[str]] = ..., compute_ahead: _Optional[bool] = ..., feature_layers: _Optional[_Iterable[int]] = ...) -> None: ...

class SequenceRef(_message.Message):
    __slots__ = ("request_id", "epoch")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class SequenceAdmission(_message.Message):
    __slots__ = ("request_id", "epoch", "token_ids", "num_prompt_tokens", "sampling", "cache_salt", "use_prefix_cache")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    USE_PREFIX_CACHE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    num_prompt_tokens: int
    sampling: _sampling_pb2.SamplingParams
    cache_salt: str
    use_prefix_cache: bool
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., num_prompt_tokens: _Optional[int] = ..., sampling: _Optional[_Union[_sampling_pb2.SamplingParams, _Mapping]] = ..., cache_salt: _Optional[str] = ..., use_prefix_cache: _Optional[bool] = ...) -> None: ...

class SequenceWork(_message.Message):
    __slots__ = ("request_id", "epoch", "base_len", "max_pending_rows", "tree", "num_features", "max_forced_nodes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_LEN_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_ROWS_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    NUM_FEATURES_FIELD_NUMBER: _ClassVar[int]
    MAX_FORCED_NODES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    base_len: int
    max_pending_rows: int
    tree: _token_tree_pb2.TokenTree
    num_features: int
    max_forced_nodes: int
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., base_len: _Optional[int] = ..., max_pending_rows: _Optional[int] = ..., tree: _Optional[_Union[_token_tree_pb2.TokenTree, _Mapping]] = ..., num_features: _Optional[int] = ..., max_forced_nodes: _Optional[int] = ...) -> None: ...

class StepResponse(_message.Message):
    __slots__ = ("step_id", "admissions", "results", "queue_ns", "forward_ns", "total_ns", "num_rows", "num_free_blocks", "ahead_ns", "num_ahead_rows", "num_pruned_rows", "is_ending")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    ADMISSIONS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_NS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_NS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_NS_FIELD_NUMBER: _ClassVar[int]
    NUM_ROWS_FIELD_NUMBER: _ClassVar[int]
    NUM_FREE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    AHEAD_NS_FIELD_NUMBER: _ClassVar[int]
    NUM_AHEAD_ROWS_FIELD_NUMBER: _ClassVar[int]
    NUM_PRUNED_ROWS_FIELD_NUMBER: _ClassVar[int]
    IS_ENDING_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    admissions: _containers.RepeatedCompositeFieldContainer[AdmissionResult]
    results: _containers.RepeatedCompositeFieldContainer[WorkResult]
    queue_ns: int
    forward_ns: int
    total_ns: int
    num_rows: int
    num_free_blocks: int
    ahead_ns: int
    num_ahead_rows: int
    num_pruned_rows: int
    is_ending: bool
    def __init__(self, step_id: _Optional[int] = ..., admissions: _Optional[_Iterable[_Union[AdmissionResult, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[WorkResult, _Mapping]]] = ..., queue_ns: _Optional[int] = ..., forward_ns: _Optional[int] = ..., total_ns: _Optional[int] = ..., num_rows: _Optional[int] = ..., num_free_blocks: _Optional[int] = ..., ahead_ns: _Optional[int] = ..., num_ahead_rows: _Optional[int] = ..., num_pruned_rows: _Optional[int] = ..., is_ending: _Optional[bool] = ...) -> None: ...

class AdmissionResult(_message.Message):
    __slots__ = ("request_id", "num_cached_tokens")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    num_cached_tokens: int
    def __init__(self, request_id: _Optional[str] = ..., num_cached_tokens: _Optional[int] = ...) -> None: ...

class WorkResult(_message.Message):
    __slots__ = ("request_id", "epoch", "status", "num_computed_tokens", "committed_token_ids", "accepted_nodes", "finish_reason", "stop_token_id", "row_token_ids", "top_token_ids", "known_epoch", "features", "logprobs", "prompt_logprobs", "num_forced_nodes", "num_accepted_forced", "no_token_left")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NUM_COMPUTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_NODES_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    ROW_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    NUM_FORCED_NODES_FIELD_NUMBER: _ClassVar[int]
    NUM_ACCEPTED_FORCED_FIELD_NUMBER: _ClassVar[int]
    NO_TOKEN_LEFT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    status: WorkStatus
    num_computed_tokens: int
    committed_token_ids: _containers.RepeatedScalarFieldContainer[int]
    accepted_nodes: _containers.RepeatedScalarFieldContainer[int]
    finish_reason: _sampling_pb2.FinishReason
    stop_token_id: int
    row_token_ids: _containers.RepeatedScalarFieldContainer[int]
    top_token_ids: _containers.RepeatedScalarFieldContainer[int]
    known_epoch: int
    features: _features_pb2.Features
    logprobs: _sampling_pb2.Logprobs
    prompt_logprobs: _sampling_pb2.Logprobs
    num_forced_nodes: int
    num_accepted_forced: int
    no_token_left: bool
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., status: _Optional[_Union[WorkStatus, str]] = ..., num_computed_tokens: _Optional[int] = ..., committed_token_ids: _Optional[_Iterable[int]] = ..., accepted_nodes: _Optional[_Iterable[int]] = ..., finish_reason: _Optional[_Union[_sampling_pb2.FinishReason, str]] = ..., stop_token_id: _Optional[int] = ..., row_token_ids: _Optional[_Iterable[int]] = ..., top_token_ids: _Optional[_Iterable[int]] = ..., known_epoch: _Optional[int] = ..., features: _Optional[_Union[_features_pb2.Features, _Mapping]] = ..., logprobs: _Optional[_Union[_sampling_pb2.Logprobs, _Mapping]] = ..., prompt_logprobs: _Optional[_Union[_sampling_pb2.Logprobs, _Mapping]] = ..., num_forced_nodes: _Optional[int] = ..., num_accepted_forced: _Optional[int] = ..., no_token_left: _Optional[bool] = ...) -> None: ...
