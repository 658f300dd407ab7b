"""What committed tokens tell of proposed trees."""

from __future__ import annotations

from dspark.scheduler.outcomes import MAX_OPEN, OpenOutcomes, Outcome, Tried
from dspark.token_tree import TokenTree, chain

#      anchor
#     1      2
#    3 4     5
FORK = TokenTree((1, 2, 3, 4, 5), (0, 0, 1, 1, 2), (1,) * 5, (0.5,) * 5, ("a",))


def followed(tree: TokenTree, *runs: tuple[int, ...]) -> Outcome:
    outcome = Outcome(tree)
    for run in runs:
        outcome.follow(run)
    return outcome


def test_siblings_are_tried_by_the_token_that_comes() -> None:
    outcome = followed(FORK, (2,))
    assert outcome.tried == [Tried(0, False), Tried(1, True)]
    assert outcome.is_open and outcome.path == [1]


def test_nothing_below_a_wrong_node_is_tried() -> None:
    outcome = followed(FORK, (9, 1, 3))
    assert outcome.tried == [Tried(0, False), Tried(1, False)]
    assert not outcome.is_open and outcome.path == []


def test_tokens_may_come_in_any_runs() -> None:
    assert followed(FORK, (1, 4)).tried == followed(FORK, (1,), (), (4,)).tried
    assert followed(FORK, (1, 4)).path == [0, 3]


def test_a_path_ends_with_its_leaf() -> None:
    outcome = followed(FORK, (2, 5))
    assert not outcome.is_open
    outcome.follow((7,))
    assert len(outcome.tried) == 3


def test_each_tree_of_a_request_is_followed_from_where_it_grew() -> None:
    outcomes = OpenOutcomes()
    first = outcomes.offer(chain([1, 2, 3], "a"))
    assert outcomes.follow((1,)) == []
    second = outcomes.offer(chain([2, 9], "a"))
    assert outcomes.follow((2,)) == []
    assert outcomes.follow((3,)) == [first, second]
    assert (first.path, second.path) == ([0, 1, 2], [0])


def test_an_end_closes_what_is_open() -> None:
    outcomes = OpenOutcomes()
    outcome = outcomes.offer(FORK)
    outcomes.follow((1,))
    assert outcomes.close() == [outcome]
    assert outcomes.close() == []


def test_the_number_of_open_outcomes_is_bounded() -> None:
    outcomes = OpenOutcomes()
    offered = [outcomes.offer(chain([1] * 99, "a")) for _ in range(MAX_OPEN + 3)]
    assert outcomes.follow((1,)) == offered[:3]
