"""A run of a session beside its other runs."""

import pytest
import tensorflow as tf

from replicate.all_reduce.background_run import BackgroundRun

v1 = tf.compat.v1


def test_runs_go_on_beside_it_and_its_error_is_raised(graph):
    """The run waits for what a later one gives; the next one fails."""
    queue = v1.FIFOQueue(1, tf.int32, [])
    total = v1.Variable(0, use_resource=True)
    add = total.assign_add(queue.dequeue(), read_value=False)
    give = queue.enqueue(3)
    fail = tf.debugging.check_numerics(tf.constant(float("nan")), "no number").op
    with v1.Session() as session:
        session.run(total.initializer)
        run = BackgroundRun(session, add)
        assert session.run(total) == 0
        session.run(give)
        run.wait()
        assert session.run(total) == 3
        with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
            BackgroundRun(session, fail).wait()
