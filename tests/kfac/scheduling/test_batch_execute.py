import pytest
import tensorflow as tf

from kfac.scheduling.batch_execute import batch_execute
from kfac.state import make_counter

v1 = tf.compat.v1


def counting_thunks(count):
    """Counters, and functions that make ops that increment them."""
    counters = [make_counter(f"count_{index}") for index in range(count)]
    return counters, [lambda c=counter: v1.assign_add(c, 1).op for counter in counters]


def cumulative(session, counters, ops, step, steps):
    session.run(v1.global_variables_initializer())
    found = []
    for number in range(steps):
        session.run(ops, {step: number})
        found.append("".join(str(value) for value in session.run(counters)))
    return found


def test_two_of_three_in_each_step(graph, session):
    counters, thunks = counting_thunks(3)
    step = v1.placeholder(tf.int64, [])
    ops = batch_execute(step, thunks, 2)
    counts = cumulative(session, counters, ops, step, 5)
    assert counts == ["110", "211", "222", "332", "433"]


@pytest.mark.parametrize(
    ("batch_size", "counts"), [(1, ["100", "110", "111"]), (3, ["111", "222", "333"])]
)
def test_one_and_all(graph, session, batch_size, counts):
    counters, thunks = counting_thunks(3)
    step = v1.placeholder(tf.int32, [])
    ops = batch_execute(step, thunks, batch_size)
    assert cumulative(session, counters, ops, step, 3) == counts


def test_the_step_may_be_a_variable(graph, session):
    counters, thunks = counting_thunks(2)
    step = v1.train.get_or_create_global_step()
    ops = batch_execute(step, thunks, 1)
    with v1.control_dependencies(ops):
        train = v1.assign_add(step, 1)
    session.run(v1.global_variables_initializer())
    for _ in range(3):
        session.run(train)
    assert session.run(counters) == [2, 1]


@pytest.mark.parametrize("batch_size", [0, 4])
def test_bad_batch_size(graph, batch_size):
    _, thunks = counting_thunks(3)
    with pytest.raises(ValueError, match=f"3 ops over steps: batch_size={batch_size}"):
        batch_execute(tf.constant(0), thunks, batch_size)
