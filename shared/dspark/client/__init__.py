"""The Python SDK: ``Client`` and ``AsyncClient`` over gRPC."""

from dspark.client.async_client import AsyncClient, AsyncStream
from dspark.client.closed import ClientClosed
from dspark.client.options import ChatOptions, GenerateOptions, Prompt
from dspark.client.results import (
    Chunk,
    Completion,
    EngineStatus,
    Model,
    Started,
    Status,
    TokenLogprobs,
    Tokens,
    TopLogprob,
)
from dspark.client.sync_client import Client, Stream
from dspark.request_class import RequestClass
from dspark.sampling import FinishReason, SpeculationParams
from dspark.structured_output import StructuredOutput
from dspark.tool_calls import ToolCall, ToolCallDelta
from dspark.transport_security.tls_files import TlsFiles

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "ChatOptions",
    "Chunk",
    "Client",
    "ClientClosed",
    "Completion",
    "EngineStatus",
    "FinishReason",
    "GenerateOptions",
    "Model",
    "Prompt",
    "RequestClass",
    "SpeculationParams",
    "Started",
    "Status",
    "Stream",
    "StructuredOutput",
    "TlsFiles",
    "TokenLogprobs",
    "Tokens",
    "ToolCall",
    "ToolCallDelta",
    "TopLogprob",
]
