"""Finds bad sampling options before anything is sent, by the rules of the services."""

from __future__ import annotations

from dspark.client.choices import checked_n
from dspark.client.options import GenerateOptions
from dspark.client.wire import request_to_proto
from dspark.wire.sampling import sampling_from_proto


def check_sampling(options: GenerateOptions, n: int) -> None:
    """Raises InvalidArgument that names the field which no server takes, whatever the model."""
    request = request_to_proto("", options, checked_n(n))
    # What is unset is chosen later: any value that is fit for the others stands for it here.
    if not request.sampling.HasField("seed"):
        request.sampling.seed = 0
    if not request.sampling.HasField("max_tokens"):
        request.sampling.max_tokens = max(1, request.sampling.min_tokens)
    sampling_from_proto(request.sampling).validate()
