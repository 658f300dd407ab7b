"""Hidden states on the wire."""

from __future__ import annotations

from dspark.features import Features
from dspark.v1 import features_pb2 as pb
from dspark.v1 import tensor_pb2


def features_to_proto(features: Features) -> pb.Features:
    return pb.Features(
        first_position=features.first_position,
        tensor=tensor_pb2.Tensor(
            dtype=tensor_pb2.DATA_TYPE_BFLOAT16, shape=features.shape, data=features.data
        ),
    )


def features_from_proto(message: pb.Features) -> Features | None:
    """None if the tensor is malformed or holds nothing: features are hints, to go without."""
    tensor = message.tensor
    if tensor.dtype != tensor_pb2.DATA_TYPE_BFLOAT16 or len(tensor.shape) != 3:
        return None
    num_tokens, num_layers, hidden_size = tensor.shape
    if not tensor.data:
        return None
    try:
        shape = (num_tokens, num_layers, hidden_size)
        return Features(message.first_position, shape, tensor.data)
    except ValueError:
        return None
