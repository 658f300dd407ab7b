"""What a candidates worker is told: each token once, everything again when in doubt."""

from __future__ import annotations

from dspark.features import Features
from dspark.generation import RequestSpec
from dspark.proposal import SequenceEnd, SequenceFeatures, SequenceUpdate, Successors
from dspark.sampling import SamplingParams
from dspark.scheduler.candidate_graph import MAX_SUCCESSOR_ROWS, CandidateGraph
from dspark.scheduler.request import Request
from dspark.step import WorkResult, WorkStatus


def make(request_id: str = "r", salt: str = "") -> Request:
    sampling = SamplingParams(temperature=0.5, seed=9)
    request = Request(RequestSpec(request_id, (1, 2, 3), sampling, cache_salt=salt), 0)
    request.admit(epoch=1)
    return request


def tell(graph: CandidateGraph, *requests: Request) -> tuple[SequenceUpdate, ...]:
    delivery = graph.next_update(requests, whole=True)
    graph.delivered(delivery, ())
    return delivery.update.sequences


def features(first: int, *values: int) -> Features:
    """One element for each token."""
    return Features(first, (len(values), 1, 1), b"".join(v.to_bytes(2, "little") for v in values))


def told_features(graph: CandidateGraph, *requests: Request) -> tuple[SequenceFeatures, ...]:
    delivery = graph.next_update(requests, whole=True)
    graph.delivered(delivery, ())
    return delivery.update.features


def with_rows(rows: tuple[int, ...], tops: tuple[int, ...]) -> WorkResult:
    return WorkResult("r", 1, WorkStatus.DONE, row_token_ids=rows, top_token_ids=tops)


def test_a_sequence_is_sent_whole_once_then_its_new_tokens() -> None:
    graph, request = CandidateGraph(), make(salt="tenant")
    assert tell(graph, request) == (SequenceUpdate("r", 1, 0, (1, 2, 3), 3, "tenant", 0.5, 9),)
    assert graph.knows(request)
    request.commit((7, 8))
    assert tell(graph, request) == (SequenceUpdate("r", 1, 3, (7, 8), 3, "tenant"),)
    assert tell(graph, request) == ()


def test_new_sequences_do_not_ride_on_a_propose() -> None:
    graph, request = CandidateGraph(), make()
    assert graph.next_update([request], whole=False).update.sequences == ()


def test_a_lost_update_is_sent_whole() -> None:
    graph, request = CandidateGraph(), make()
    tell(graph, request)
    request.commit((7,))
    graph.lost(graph.next_update([request], whole=False))
    assert not graph.knows(request)
    assert tell(graph, request)[0].base_len == 0


def test_a_sequence_that_the_worker_does_not_know_is_sent_whole() -> None:
    graph, first, second = CandidateGraph(), make("a"), make("b")
    graph.delivered(graph.next_update([first, second], whole=True), ["b"])
    assert graph.knows(first) and not graph.knows(second)


def test_a_new_incarnation_is_sent_whole() -> None:
    graph, request = CandidateGraph(), make()
    tell(graph, request)
    request.preempt()
    request.admit(epoch=2)
    assert not graph.knows(request)
    assert tell(graph, request) == (SequenceUpdate("r", 2, 0, (1, 2, 3), 3, "", 0.5, 9),)


def test_the_last_tokens_of_a_completed_sequence_come_with_its_end() -> None:
    graph, request = CandidateGraph(), make()
    tell(graph, request)
    request.commit((7,))
    graph.add_end(request, completed=True)
    request.finish()
    update = graph.next_update([], whole=True).update
    assert update.sequences == (SequenceUpdate("r", 1, 3, (7,), 3, ""),)
    assert update.releases == (SequenceEnd("r", 1, True),)
    assert not graph.has_ends


def test_an_aborted_sequence_teaches_nothing_more() -> None:
    graph, request = CandidateGraph(), make()
    tell(graph, request)
    request.commit((7,))
    graph.add_end(request, completed=False)
    update = graph.next_update([], whole=True).update
    assert update.sequences == () and update.releases == (SequenceEnd("r", 1, False),)


def test_a_lost_end_is_sent_again() -> None:
    graph, request = CandidateGraph(), make()
    graph.add_end(request, completed=False)
    graph.lost(graph.next_update([], whole=True))
    assert graph.next_update([], whole=True).update.releases == (SequenceEnd("r", 1, False),)


def test_a_sequence_that_ended_while_its_update_travelled_is_not_kept() -> None:
    graph, request = CandidateGraph(), make()
    delivery = graph.next_update([request], whole=True)
    request.finish()
    graph.delivered(delivery, ())
    assert not graph.knows(request)


def test_successors_are_kept_apart_by_tenant_and_bounded() -> None:
    graph, ours, theirs = CandidateGraph(), make(salt="a"), make(salt="b")
    graph.add_successors(ours, with_rows((1,), (2, 3)))
    graph.add_successors(ours, with_rows((4,), (5, 6)))
    graph.add_successors(theirs, with_rows((1,), (9, 9)))
    graph.add_successors(theirs, with_rows((), ()))
    update = graph.next_update([], whole=True).update
    assert update.successors == (
        Successors((1, 4), (2, 3, 5, 6), "a"),
        Successors((1,), (9, 9), "b"),
    )
    for _ in range(2 * MAX_SUCCESSOR_ROWS):
        graph.add_successors(ours, with_rows((1,), (2, 3)))
    (kept,) = graph.next_update([], whole=True).update.successors
    assert len(kept.row_token_ids) == MAX_SUCCESSOR_ROWS


def test_the_end_is_of_the_incarnation_that_ended_here() -> None:
    graph, request = CandidateGraph(), make()
    tell(graph, request)
    request.preempt()
    graph.add_end(request, completed=False)
    request.admit(epoch=2)  # at another verifier, with a view of its own
    assert graph.next_update([], whole=True).update.releases == (SequenceEnd("r", 1, False),)


def test_features_come_once_with_the_tokens_of_their_sequence() -> None:
    graph, request, other = CandidateGraph(), make(), make("other")
    graph.add_features(request, features(1, 7), 1)
    # Nobody knows the sequence yet, and it does not ride on a propose.
    assert graph.next_update([request], whole=False).update.features == ()
    assert told_features(graph, other) == ()
    assert told_features(graph, request) == (SequenceFeatures("r", 1, features(1, 7)),)
    assert told_features(graph, request) == ()


def test_consecutive_features_wait_together_up_to_the_number_that_is_wanted() -> None:
    graph, request = CandidateGraph(), make()
    graph.add_features(request, features(1, 7), 3)
    graph.add_features(request, features(2, 8, 9), 3)
    graph.add_features(request, features(4, 10), 3)
    assert told_features(graph, request)[0].features == features(2, 8, 9, 10)
    graph.add_features(request, features(5, 11), 3)
    graph.add_features(request, features(7, 13), 3)
    assert told_features(graph, request)[0].features == features(7, 13)


def test_features_of_an_earlier_incarnation_are_forgotten() -> None:
    graph, request = CandidateGraph(), make()
    graph.add_features(request, features(1, 7), 2)
    request.preempt()
    request.admit(epoch=2)
    assert told_features(graph, request) == ()
    graph.add_features(request, features(0, 6), 2)
    request.preempt()
    request.admit(epoch=3)
    graph.add_features(request, features(1, 7), 2)
    assert told_features(graph, request) == (SequenceFeatures("r", 3, features(1, 7)),)


def test_features_do_not_outlive_their_request() -> None:
    graph, request = CandidateGraph(), make()
    graph.add_features(request, features(1, 7), 1)
    graph.add_end(request, completed=True)
    request.finish()
    assert not graph._features
    assert graph.next_update([], whole=True).update.features == ()


def test_lost_features_stay_lost() -> None:
    graph, request = CandidateGraph(), make()
    tell(graph, request)
    graph.add_features(request, features(1, 7), 2)
    graph.lost(graph.next_update([request], whole=False))
    graph.add_features(request, features(2, 8), 2)
    assert told_features(graph, request)[0].features == features(2, 8)
