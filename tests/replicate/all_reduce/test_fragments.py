"""Fragments of variables, and the steps of their rounds."""

import pytest

from replicate.all_reduce.fragments import Schedule, cut


def test_fragments_are_of_one_size_and_from_all_over_the_model():
    assert cut([8, 8, 8, 8, 8, 8], 3) == [[0, 3], [1, 4], [2, 5]]
    assert cut([1, 5, 2, 9, 3], 2) == [[0, 3], [1, 2, 4]]
    assert cut([4], 2) == [[0], []]


@pytest.mark.parametrize(
    ("every", "fragments", "steps"),
    [(3, 1, {3: [0], 6: [0]}), (5, 3, {1: [0], 3: [1], 5: [2], 6: [0], 8: [1]})],
)
def test_each_fragment_has_a_round_every_so_many_steps(every, fragments, steps):
    schedule, found, step = Schedule(every, fragments), {}, 0
    while (following := schedule.next_step(step)) <= max(steps):
        found[following] = schedule.due(step, following)
        step = following
    assert found == steps
    assert schedule.due(0, max(steps)) == list(range(fragments)), "a worker may skip some steps"
    assert schedule.due(4, 4) == []
