"""Events and arrival times become one completion."""

from __future__ import annotations

import pytest

from dspark.client.collector import Collector
from dspark.client.results import Chunk, Finished, Started
from dspark.errors import InternalError
from dspark.sampling import FinishReason

STARTED = Started("r", "m", 3, 42)
FINISHED = Finished(FinishReason.LENGTH)


def test_text_tokens_and_times() -> None:
    collector = Collector(sent_at=10.0)
    collector.add_started(STARTED)
    collector.add_chunk(Chunk("Hé", (1, 2), 1), 10.5)
    collector.add_chunk(Chunk("", (3,), 0), 10.75)
    collector.add_chunk(Chunk("l", (4,), 0), 11.75)
    completion = collector.finish(FINISHED, 12.0)
    assert (completion.text, completion.token_ids) == ("Hél", (1, 2, 3, 4))
    assert (completion.request_id, completion.model, completion.seed) == ("r", "m", 42)
    assert completion.ttft_ms == 500.0
    assert completion.itl_ms == (250.0, 1000.0)
    assert completion.elapsed_ms == 2000.0


def test_a_chunk_without_tokens_is_no_arrival_of_tokens() -> None:
    collector = Collector(sent_at=0.0)
    collector.add_started(STARTED)
    collector.add_chunk(Chunk("a", (1,), 0), 1.0)
    collector.add_chunk(Chunk("tail", (), 0), 2.0)
    completion = collector.finish(FINISHED, 2.0)
    assert completion.text == "atail"
    assert completion.itl_ms == ()


def test_without_tokens_the_first_token_time_is_the_end() -> None:
    collector = Collector(sent_at=1.0)
    collector.add_started(STARTED)
    assert collector.finish(FINISHED, 3.0).ttft_ms == 2000.0


def test_a_stream_that_never_started_is_an_error() -> None:
    with pytest.raises(InternalError):
        Collector(0.0).finish(FINISHED, 1.0)
