import pytest
import tensorflow as tf

from kfac import schedules

v1 = tf.compat.v1


def test_numbers_tensors_and_variables_are_returned_as_they_are(graph):
    for value in (0.1, None, tf.constant(0.1), v1.get_variable("rate", [])):
        assert schedules.called_once(value) is value
        assert schedules.current(value) is value


def test_function_is_called_at_first_use_and_once(graph):
    calls = []

    def schedule():
        calls.append(1)
        return tf.constant(0.1)

    rate = schedules.called_once(schedule)
    assert calls == []
    assert schedules.current(rate) is schedules.current(rate)
    assert calls == [1]


def test_function_may_be_used_first_in_a_branch(graph, session):
    rate = schedules.called_once(lambda: tf.constant(0.5))
    condition = v1.placeholder_with_default(True, [])
    inside = tf.cond(condition, lambda: 2 * schedules.current(rate), lambda: 0.0)
    assert session.run([inside, schedules.current(rate)]) == [1.0, 0.5]


@pytest.mark.parametrize("period", [3, lambda: tf.constant(3)])
def test_what_is_done_every_so_many_steps(graph, session, period):
    step = v1.placeholder(tf.int64, [])
    due = schedules.is_due(step, period)
    assert [n for n in range(7) if session.run(due, {step: n})] == [0, 3, 6]


def test_what_is_done_in_every_step(graph, session):
    step = v1.placeholder(tf.int64, [])
    assert schedules.is_due(step, 1) is True
    assert session.run(schedules.is_due(step, tf.constant(0)), {step: 5})


def test_decay_per_update(graph, session):
    assert schedules.decay_per_update(0.5, 3) == 0.125
    decay = tf.constant(0.5, tf.float64)
    assert schedules.decay_per_update(decay, 1) is decay
    assert session.run(schedules.current(schedules.decay_per_update(decay, 3))) == 0.125
