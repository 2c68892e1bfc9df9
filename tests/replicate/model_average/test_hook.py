import logging

import pytest
import tensorflow as tf

from replicate.model_average import ModelAverageCustomGetter, ModelAverageOptimizer
from replicate.model_average import hook as hook_module

v1 = tf.compat.v1


def test_a_leaving_worker_contributes_and_the_round_goes_on(start_workers):
    chief, leaving, third = start_workers(3)
    chief.step(), leaving.step(), third.step()
    steps = [chief.step_beside(), third.step_beside()]
    steps[0].thread.join(0.15)
    assert steps[0].thread.is_alive()
    leaving.leave()
    for step in steps:
        step()
    # Chief 2, the leaving one 2 after a single step, the third 6.
    local, center, number = chief.values()
    assert local == center == pytest.approx([10 / 3, 13 / 3], rel=1e-6)
    assert number == 1
    chief.step(), third.step()
    step = third.step_beside()
    chief.step()
    step()
    # Both rest at 10 / 3 + (2 + 6) / 2. The other one comes back, and leaves before the chief.
    leaving.start()
    leaving.step()
    leaving.leave()
    chief.step()
    step = chief.step_beside()
    step.thread.join(0.15)
    assert step.thread.is_alive(), "the third takes part"
    third.step(2)
    step()
    assert third.values()[0] == pytest.approx([32 / 3, 35 / 3], rel=1e-6)
    assert third.values()[2] == 3
    leaving.start()


def test_a_leaving_chief_averages_its_steps_since_the_last_round(start_workers):
    (chief,) = start_workers(1)
    chief.step(4)
    chief.hook.end(chief.session)
    assert chief.values() == ([4.0, 5.0], [4.0, 5.0], 2), "there were none"
    chief.die()
    chief.start()
    chief.step(3)
    chief.hook.end(chief.session)
    assert chief.values() == ([7.0, 8.0], [7.0, 8.0], 4)


@pytest.fixture
def log_lines():
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    hook_module.log.addHandler(handler)
    yield lines
    hook_module.log.removeHandler(handler)


def test_a_round_drops_a_lost_worker_after_patience_secs_and_logs_its_name(
    start_workers, log_lines
):
    chief, lost, third = start_workers(3, patience_secs=0.2)
    lost.step(), third.step(), chief.step()
    lost.die()
    steps = [chief.step_beside(), third.step_beside()]
    for step in steps:
        step()
    assert chief.values() == ([4.0, 5.0], [4.0, 5.0], 1)  # Of 2 and 6; of 3 and 7.
    (line,) = log_lines
    assert "for worker:/job:worker/task:1 and goes on without" in line
    chief.step(), third.step()
    steps = [chief.step_beside(), third.step_beside()]
    for step in steps:
        step()
    assert len(log_lines) == 1, "the next round does not wait for it"
    lost.start()
    assert lost.values()[0] == chief.values()[1]


def test_a_worker_that_never_joins_is_dropped_once(start_workers, log_lines):
    chief, never = start_workers(2, started=1, patience_secs=0.2)
    chief.step(6)
    assert chief.values() == ([6.0, 7.0], [6.0, 7.0], 3)
    (line,) = log_lines
    assert "for 1 never seen" in line
    never.start()
    assert never.values() == chief.values(), "it starts with the centers"
    chief.step()
    step = chief.step_beside()
    never.step(2)
    step()
    assert chief.values() == never.values() == ([9.0, 10.0], [9.0, 10.0], 4)
    assert len(log_lines) == 1


def test_a_worker_that_cannot_reach_the_parameter_server_logs_a_warning(start_workers, log_lines):
    (worker,) = start_workers(1)

    class Gone:
        def run(self, fetches, options=None):
            raise tf.errors.UnavailableError(None, None, "no such server")

    worker.hook.end(Gone())
    (line,) = log_lines
    assert line.startswith(
        "Model averaging: cannot tell the other workers that this one ends: no such server."
    )


def test_a_hook_of_an_optimizer_that_was_not_applied_is_refused(graph):
    optimizer = ModelAverageOptimizer(
        v1.train.GradientDescentOptimizer(1.0), 1, True, ModelAverageCustomGetter("")
    )
    hook = optimizer.make_session_run_hook()
    with pytest.raises(ValueError, match=r"has not been applied.* Call minimize"):
        hook.begin()
