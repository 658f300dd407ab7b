from dspark.v1 import features_pb2 as _features_pb2
from dspark.v1 import token_tree_pb2 as _token_tree_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetCandidatesInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCandidatesInfoResponse(_message.Message):
    __slots__ = ("sources", "top_k", "source_rates", "feature_layers", "num_features", "feature_sources")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    SOURCE_RATES_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LAYERS_FIELD_NUMBER: _ClassVar[int]
    NUM_FEATURES_FIELD_NUMBER: _ClassVar[int]
    FEATURE_SOURCES_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedScalarFieldContainer[str]
    top_k: int
    source_rates: _containers.RepeatedCompositeFieldContainer[SourceRate]
    feature_layers: _containers.RepeatedScalarFieldContainer[int]
    num_features: int
    feature_sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sources: _Optional[_Iterable[str]] = ..., top_k: _Optional[int] = ..., source_rates: _Optional[_Iterable[_Union[SourceRate, _Mapping]]] = ..., feature_layers: _Optional[_Iterable[int]] = ..., num_features: _Optional[int] = ..., feature_sources: _Optional[_Iterable[str]] = ...) -> None: ...

class SourceRate(_message.Message):
    __slots__ = ("name", "milliseconds_per_request", "milliseconds_per_node")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_PER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    milliseconds_per_request: float
    milliseconds_per_node: float
    def __init__(self, name: _Optional[str] = ..., milliseconds_per_request: _Optional[float] = ..., milliseconds_per_node: _Optional[float] = ...) -> None: ...

class CandidatesUpdate(_message.Message):
    __slots__ = ("sequences", "successors", "releases", "features")
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSORS_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    sequences: _containers.RepeatedCompositeFieldContainer[SequenceUpdate]
    successors: _containers.RepeatedCompositeFieldContainer[Successors]
    releases: _containers.RepeatedCompositeFieldContainer[SequenceEnd]
    features: _containers.RepeatedCompositeFieldContainer[SequenceFeatures]
    def __init__(self, sequences: _Optional[_Iterable[_Union[SequenceUpdate, _Mapping]]] = ..., successors: _Optional[_Iterable[_Union[Successors, _Mapping]]] = ..., releases: _Optional[_Iterable[_Union[SequenceEnd, _Mapping]]] = ..., features: _Optional[_Iterable[_Union[SequenceFeatures, _Mapping]]] = ...) -> None: ...

class SequenceUpdate(_message.Message):
    __slots__ = ("request_id", "epoch", "base_len", "token_ids", "num_prompt_tokens", "cache_salt", "temperature", "seed")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_LEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    base_len: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    num_prompt_tokens: int
    cache_salt: str
    temperature: float
    seed: int
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., base_len: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., num_prompt_tokens: _Optional[int] = ..., cache_salt: _Optional[str] = ..., temperature: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class SequenceFeatures(_message.Message):
    __slots__ = ("request_id", "epoch", "features")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    features: _features_pb2.Features
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., features: _Optional[_Union[_features_pb2.Features, _Mapping]] = ...) -> None: ...

class Successors(_message.Message):
    __slots__ = ("row_token_ids", "top_token_ids", "cache_salt")
    ROW_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    row_token_ids: _containers.RepeatedScalarFieldContainer[int]
    top_token_ids: _containers.RepeatedScalarFieldContainer[int]
    cache_salt: str
    def __init__(self, row_token_ids: _Optional[_Iterable[int]] = ..., top_token_ids: _Optional[_Iterable[int]] = ..., cache_salt: _Optional[str] = ...) -> None: ...

class SequenceEnd(_message.Message):
    __slots__ = ("request_id", "epoch", "completed")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    completed: bool
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., completed: _Optional[bool] = ...) -> None: ...

class ProposeRequest(_message.Message):
    __slots__ = ("update", "items", "traceparents")
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENTS_FIELD_NUMBER: _ClassVar[int]
    update: CandidatesUpdate
    items: _containers.RepeatedCompositeFieldContainer[ProposeItem]
    traceparents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, update: _Optional[_Union[CandidatesUpdate, _Mapping]] = ..., items: _Optional[_Iterable[_Union[ProposeItem, _Mapping]]] = ..., traceparents: _Optional[_Iterable[str]] = ...) -> None: ...

class StreamProposeRequest(_message.Message):
    __slots__ = ("propose", "max_wait_ms")
    PROPOSE_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    propose: ProposeRequest
    max_wait_ms: float
    def __init__(self, propose: _Optional[_Union[ProposeRequest, _Mapping]] = ..., max_wait_ms: _Optional[float] = ...) -> None: ...

class StreamProposeResponse(_message.Message):
    __slots__ = ("propose",)
    PROPOSE_FIELD_NUMBER: _ClassVar[int]
    propose: ProposeResponse
    def __init__(self, propose: _Optional[_Union[ProposeResponse, _Mapping]] = ...) -> None: ...

class ProposeItem(_message.Message):
    __slots__ = ("request_id", "epoch", "base_len", "max_nodes", "max_depth", "sources", "min_survival", "price")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_LEN_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    MIN_SURVIVAL_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    base_len: int
    max_nodes: int
    max_depth: int
    sources: _containers.RepeatedScalarFieldContainer[str]
    min_survival: float
    price: float
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., base_len: _Optional[int] = ..., max_nodes: _Optional[int] = ..., max_depth: _Optional[int] = ..., sources: _Optional[_Iterable[str]] = ..., min_survival: _Optional[float] = ..., price: _Optional[float] = ...) -> None: ...

class ProposeResponse(_message.Message):
    __slots__ = ("proposals", "unknown_request_ids", "source_costs")
    PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_COSTS_FIELD_NUMBER: _ClassVar[int]
    proposals: _containers.RepeatedCompositeFieldContainer[Proposal]
    unknown_request_ids: _containers.RepeatedScalarFieldContainer[str]
    source_costs: _containers.RepeatedCompositeFieldContainer[SourceCost]
    def __init__(self, proposals: _Optional[_Iterable[_Union[Proposal, _Mapping]]] = ..., unknown_request_ids: _Optional[_Iterable[str]] = ..., source_costs: _Optional[_Iterable[_Union[SourceCost, _Mapping]]] = ...) -> None: ...

class Proposal(_message.Message):
    __slots__ = ("request_id", "epoch", "base_len", "tree")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_LEN_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    epoch: int
    base_len: int
    tree: _token_tree_pb2.TokenTree
    def __init__(self, request_id: _Optional[str] = ..., epoch: _Optional[int] = ..., base_len: _Optional[int] = ..., tree: _Optional[_Union[_token_tree_pb2.TokenTree, _Mapping]] = ...) -> None: ...

class SourceCost(_message.Message):
    __slots__ = ("name", "nanoseconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    nanoseconds: int
    def __init__(self, name: _Optional[str] = ..., nanoseconds: _Optional[int] = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ("update",)
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    update: CandidatesUpdate
    def __init__(self, update: _Optional[_Union[CandidatesUpdate, _Mapping]] = ...) -> None: ...

class ObserveResponse(_message.Message):
    __slots__ = ("unknown_request_ids",)
    UNKNOWN_REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    unknown_request_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, unknown_request_ids: _Optional[_Iterable[str]] = ...) -> None: ...
