import pytest
import tensorflow as tf

import kfac
from kfac.scheduling.op_queue import OpQueue, OpQueueHook

v1 = tf.compat.v1


def make_ops(count):
    return [tf.no_op(name=f"op_{index}") for index in range(count)]


def epoch(queue):
    return [queue.next_op(None) for _ in queue.ops]


def test_each_epoch_has_every_op_once_in_a_new_order(graph):
    ops = make_ops(8)
    queue = OpQueue(ops, seed=0)
    graph.finalize()
    epochs = [epoch(queue) for _ in range(5)]
    assert all(set(found) == set(ops) for found in epochs)
    assert len({tuple(found) for found in epochs}) == 5
    assert queue.ops == tuple(ops)


def test_the_seed_decides(graph):
    ops = make_ops(8)
    first, second, other = (epoch(OpQueue(ops, seed)) for seed in (0, 0, 1))
    assert first == second != other


def test_one_op_is_handed_out_again_and_again(graph):
    (op,) = make_ops(1)
    queue = OpQueue([op])
    assert [queue.next_op() for _ in range(3)] == [op] * 3


def test_no_ops(graph):
    with pytest.raises(ValueError, match="Cannot make an OpQueue: ops is empty"):
        OpQueue([])


@pytest.mark.parametrize("is_late", [False, True])
def test_hook_runs_an_op_beside_each_step(graph, is_late):
    counts = [v1.get_variable(name, [], initializer=v1.zeros_initializer()) for name in "abc"]
    step = v1.train.get_or_create_global_step()
    train = v1.assign_add(step, 1)
    queue = OpQueue([v1.assign_add(count, 1).op for count in counts], seed=0)
    hook = OpQueueHook((lambda: queue) if is_late else queue)
    with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        for done in (1, 2, 3):
            for _ in range(3):
                session.run(train)
            # A hook is not asked about what a step function runs by itself.
            found = session.run_step_fn(lambda step_context: step_context.session.run(counts))
            assert found == [done, done, done]


def test_a_worker_that_inverts_one_factor_at_a_time(build_mlp, session, rows):
    """Of a cluster's dedicated workers: one runs the averages, one the queue, others step."""
    network = build_mlp()
    optimizer = kfac.KfacOptimizer(0.1, 0.3, network.collection, estimation_mode="empirical")
    _, cov_update, inv_updates, _, _, _ = optimizer.make_ops_and_vars()
    queue = OpQueue(inv_updates, seed=0)
    train = optimizer.minimize(network.losses[0])
    inverses = [factor.inv_variables[0] for factor in optimizer.factors]
    session.run(v1.global_variables_initializer())
    feed = network.feed([rows[0]], [rows[1]])
    loss = session.run(network.losses[0], feed)
    session.run(cov_update, feed)
    for done in range(1, len(inverses) + 1):
        session.run(queue.next_op(session))
        assert sum(inverse.any() for inverse in session.run(inverses)) == done
    session.run(train, feed)
    assert session.run(network.losses[0], feed) < loss
