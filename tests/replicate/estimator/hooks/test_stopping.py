import pytest
import tensorflow as tf

from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.step_loop import StepLoop
from replicate.estimator.hooks.stopping import StopHook

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("limits", "last"), [({"num_steps": 2}, 7), ({"last_step": 7}, 7), ({"last_step": 5}, 5)]
)
def test_training_ends_at_its_last_step(graph, limits, last):
    step = v1.train.create_global_step()
    readings = StepReadings(v1.assign_add(step, 1).op, tf.constant(1.0))
    creator = v1.train.ChiefSessionCreator(v1.train.Scaffold(init_op=step.assign(5)))
    loop = StepLoop(readings, [StopHook(readings, **limits)])
    with v1.train.MonitoredSession(creator, loop.hooks) as session:
        loop.run(session)
    assert readings.step == last
