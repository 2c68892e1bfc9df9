import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import NonFiniteError
from replicate.estimator.finite import FiniteLossHook, FiniteVariablesListener
from replicate.estimator.steps import StepReadings

v1 = tf.compat.v1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_loss_that_is_not_finite_stops_the_step(graph, bad):
    v1.train.create_global_step()
    loss = v1.placeholder(tf.float32, [], name="my_loss")
    readings = StepReadings(loss, loss)
    hooks = [readings, FiniteLossHook(readings)]
    with v1.train.MonitoredSession(hooks=hooks) as session:
        session.run(loss, {loss: 1.0})
        with pytest.raises(NonFiniteError, match="stopped at step 0: the loss my_loss is"):
            session.run(loss, {loss: bad})


def test_variables_that_are_not_finite_are_named(graph):
    v1.train.create_global_step()
    bad = v1.get_variable("bad", initializer=[1.0, 2.0])
    v1.get_variable("good", initializer=[1.0])
    v1.get_variable("statistic", initializer=[np.inf], trainable=False)
    listener = FiniteVariablesListener()
    listener.begin()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        listener.before_save(session, 3)
        bad.load([1.0, np.nan], session)
        with pytest.raises(NonFiniteError, match=r"at step 3: not finite: bad. This"):
            listener.before_save(session, 3)
