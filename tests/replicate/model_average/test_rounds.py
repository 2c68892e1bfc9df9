import pytest
import tensorflow as tf

v1 = tf.compat.v1


def waits(step):
    """Returns True if a step in another thread still waits after 0.15 s."""
    step.thread.join(0.15)
    return step.thread.is_alive()


def test_a_round_waits_for_all_workers_and_gives_them_the_mean(start_workers):
    workers = start_workers(3)
    for worker in workers:
        worker.step()
    steps = [worker.step_beside() for worker in workers[:2]]
    assert waits(steps[0])
    assert waits(steps[1])
    workers[2].step()
    for step in steps:
        step()
    # After two steps: 2, 4 and 6; 3, 5 and 7.
    for worker in workers:
        assert worker.values() == ([4.0, 5.0], [4.0, 5.0], 1)


def test_workers_stay_equal_over_many_rounds(start_workers):
    workers = start_workers(2, interval=1)
    for _ in range(10):
        steps = [worker.step_beside() for worker in workers]
        for step in steps:
            step()
    assert [worker.values() for worker in workers] == [([15.0, 16.0], [15.0, 16.0], 10)] * 2


def test_a_restarted_worker_counts_once_in_a_round(start_workers):
    chief, lost, third = start_workers(3)
    chief.step(), lost.step(), third.step()
    waiting = lost.step_beside()
    assert waits(waiting)
    lost.die()
    with pytest.raises((tf.errors.OpError, RuntimeError)):
        waiting()
    lost.start()
    assert lost.values() == ([0.0, 1.0], [0.0, 1.0], 0)
    lost.step()
    steps = [lost.step_beside(), chief.step_beside()]
    assert waits(steps[1]), "the third is missing, though there are three contributions"
    third.step()
    for step in steps:
        step()
    assert lost.values() == ([4.0, 5.0], [4.0, 5.0], 1)


def test_a_late_worker_copies_the_centers_and_goes_on(start_workers):
    chief, late = start_workers(2, patience_secs=0.2)
    late.step()
    chief.step(2)
    assert chief.values() == ([2.0, 3.0], [2.0, 3.0], 1)
    late.step()
    assert late.values() == ([2.0, 3.0], [2.0, 3.0], 1), "its own steps are lost"
    late.step(), chief.step()
    step = late.step_beside()
    chief.step()
    step()
    # 2 + 2 and 2 + 4; 3 + 2 and 3 + 4.
    assert late.values() == chief.values() == ([5.0, 6.0], [5.0, 6.0], 2)


def test_a_restarted_chief_restarts_the_round(start_workers):
    chief, worker = start_workers(2)
    chief.step(), worker.step()
    waiting = worker.step_beside()
    assert waits(waiting)
    chief.die()
    chief.start()
    waiting()
    assert worker.values() == ([0.0, 1.0], [0.0, 1.0], 0), "it is late for a round that is no more"
    chief.step(), worker.step()
    step = worker.step_beside()
    chief.step()
    step()
    assert chief.values() == worker.values() == ([3.0, 4.0], [3.0, 4.0], 1)


def test_a_chief_that_died_while_waiting_loses_its_contribution(start_workers):
    chief, worker = start_workers(2)
    chief.step()
    waiting = chief.step_beside()
    assert waits(waiting)
    chief.die()
    with pytest.raises((tf.errors.OpError, RuntimeError)):
        waiting()
    chief.start()
    worker.step(2)
    assert worker.values() == ([0.0, 1.0], [0.0, 1.0], 0)
    chief.step(), worker.step()
    step = worker.step_beside()
    chief.step()
    step()
    assert chief.values() == ([3.0, 4.0], [3.0, 4.0], 1), "what it had contributed counts no more"


def test_the_end_of_the_chief_ends_waiting_and_working_workers(start_workers):
    chief, waiting, working = start_workers(3)
    waiting.step()
    step = waiting.step_beside()
    assert waits(step)
    working.step()
    chief.leave()
    with pytest.raises(tf.errors.OutOfRangeError):
        step()
    with pytest.raises(tf.errors.OutOfRangeError):
        working.step()
    chief.start()  # Another run with the same parameter server.


@pytest.mark.parametrize("use_resource", [True, False])
def test_shared_state_is_on_the_parameter_server(start_workers, use_resource):
    (worker,) = start_workers(1, use_resource=use_resource)
    shared = ("ConditionalAccumulator", "FIFOQueueV2", "MutableHashTableV2")
    ops = [op for op in worker.graph.get_operations() if op.type.endswith(shared)]
    assert len(ops) == 6  # Means of two weights and of presence, two queues, one table.
    assert all(op.device.startswith("/job:ps/task:0") for op in ops)
    worker.step(2)
    assert worker.values() == ([2.0, 3.0], [2.0, 3.0], 1)
