"""Rounds of averaging: their state, and the mean of what workers send."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from replicate.model_average.round_state import RoundState
from replicate.model_average.rounds import WorkerMean

v1 = tf.compat.v1


def waits(step):
    """Returns True if a step in another thread still waits after 0.15 s."""
    step.thread.join(0.15)
    return step.thread.is_alive()


def test_a_round_waits_for_all_workers_and_gives_them_the_mean(start_workers):
    workers = start_workers(3, patience_secs=None)
    shared = ("ConditionalAccumulator", "FIFOQueueV2", "MutableHashTableV2")
    ops = [op for op in workers[0].graph.get_operations() if op.type.endswith(shared)]
    assert len(ops) == 6  # Means of two weights and of presence, two queues, one table.
    assert all(op.device.startswith("/job:ps/task:0") for op in ops)
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
    for _ in range(8):
        steps = [worker.step_beside() for worker in workers]
        for step in steps:
            step()
    assert [worker.values() for worker in workers] == [([20.0, 21.0], [20.0, 21.0], 5)] * 3


OUTER = {
    "averaging": v1.train.GradientDescentOptimizer(1.0),
    "nesterov": lambda: v1.train.MomentumOptimizer(0.5, 0.75, use_nesterov=True),
}


@pytest.mark.parametrize("kind", OUTER)
def test_the_outer_optimizer_gets_the_mean_change(start_workers, kind):
    """Five rounds of two workers against NumPy. A late worker starts from the newest result.

    Each round's steps add 2 to a weight of one worker and 4 to that of the other.
    """
    chief, worker = start_workers(2, outer_optimizer=OUTER[kind])
    weight, momentum = 0.0, 0.0
    for number in range(5):
        chief.step(), worker.step()
        step = worker.step_beside()
        chief.step()
        step()
        momentum = 0.75 * momentum - 3.0
        weight -= -3.0 if kind == "averaging" else 0.5 * (-3.0 + 0.75 * momentum)
        expected = pytest.approx([weight, weight + 1.0])
        assert chief.values() == worker.values() == (expected, expected, number + 1)
    names = {each.op.name.rpartition("/")[2] for each in saved_variables(chief.graph)}
    assert ("Momentum" in names) == (kind == "nesterov")
    worker.die()
    worker.start()
    assert worker.values() == chief.values()


def saved_variables(graph):
    return graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)


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
    assert worker.values() == ([3.0, 4.0], [3.0, 4.0], 1)
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


@pytest.mark.parametrize("functional", [True, False])
def test_wait_ends_only_when_the_round_has_ended(graph, functional):
    (v1.enable_control_flow_v2 if functional else v1.disable_control_flow_v2)()
    try:
        state = RoundState("test", "")
        waiting = state.wait(tf.constant(4, tf.int64))
    finally:
        v1.enable_control_flow_v2()
    round_number = v1.placeholder(tf.int64, [])
    opened, woken = state.open_round(round_number), state.wake(round_number, 1)
    with v1.Session() as session:
        session.run(waiting)  # Round 0 is open: waiting for round 4 returns at once.
        session.run(opened, {round_number: 4})
        for stale in (2, 4):
            session.run(woken, {round_number: stale})
        thread = threading.Thread(target=session.run, args=(waiting,), daemon=True)
        thread.start()
        thread.join(0.15)
        assert thread.is_alive()
        session.run(opened, {round_number: 5})
        session.run(woken, {round_number: 5})  # A token of round 5 leaves round 4 waiting.
        thread.join(0.15)
        assert thread.is_alive()
        session.run(woken, {round_number: 4})
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64, tf.bfloat16])
def test_late_and_discarded_contributions_are_left_out_of_the_mean(graph, dtype):
    mean = WorkerMean("mean", [2], dtype, "")
    value, round_number = v1.placeholder(dtype, [2]), v1.placeholder(tf.int64, [])
    add, taken = mean.add(value, round_number), mean.take(2, round_number)
    one, discard = mean.take(1, round_number), mean.discard(round_number)

    def added(values, number):
        session.run(add, {value: np.array(values, dtype.as_numpy_dtype), round_number: number})

    with v1.Session() as session:
        added([1, 2], 5)
        added([2, 5], 5)
        assert session.run(taken, {round_number: 5}).tolist() == [1.5, 3.5]
        added([100, 100], 5)  # Late: this round has ended.
        added([3, 4], 6)
        assert session.run(one, {round_number: 6}).tolist() == [3, 4]
        session.run(discard, {round_number: 7})
        added([1, 1], 8)
        session.run(discard, {round_number: 8})
        added([1, 1], 8)
        added([7, 8], 9)
        assert session.run(one, {round_number: 9}).tolist() == [7, 8]


def test_16_bit_contributions_do_not_overflow(graph):
    mean = WorkerMean("mean", [], tf.float16, "")
    add = mean.add(tf.constant(60000, tf.float16), tf.constant(0, tf.int64))
    taken = mean.take(2, tf.constant(0, tf.int64))
    with v1.Session() as session:
        session.run(add)
        session.run(add)
        assert session.run(taken) == np.float16(60000)
