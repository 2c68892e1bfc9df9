"""Order of update ops: in a queue, in batches, and by the role of a worker."""

import pytest
import tensorflow as tf

from kfac.batch_execute import batch_execute
from kfac.op_queue import OpQueue, OpQueueHook
from kfac.state import make_counter
from kfac.worker_roles import WorkerRole

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
    same, other = (epoch(OpQueue(ops, seed)) for seed in (0, 1))
    assert epochs[0] == same != other
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


def roles(strategy, count):
    return [WorkerRole(strategy, count, index) for index in range(count)]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, "g g ci"),
        (4, "g g g ci"),
        (5, "g g g c i"),
        (6, "g g g g c i"),
        (8, "g g g g g c c i"),
        (10, "g g g g g g c c i i"),
    ],
)
def test_dedicated_workers(count, expected):
    found = roles("dedicated_workers", count)
    assert " ".join("".join(w[0] for w in role.name.split(", ")) for role in found) == expected
    assert [role.folds_statistics for role in found].count(True) == 1
    assert all(role.adds_statistics for role in found if role.folds_statistics)
    gradients = [role for role in found if role.computes_gradients]
    assert {role.replicas_to_aggregate for role in found} == {len(gradients)}
    assert found[0].is_chief
    assert gradients[0] == found[0]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_chief_worker(count):
    chief, *others = roles("chief_worker", count)
    assert chief.name == "gradients, covariances, inverses"
    assert chief.is_chief
    assert chief.folds_statistics
    assert chief.owned([1, 2, 3]) == [0, 1, 2]
    for role in others:
        assert role.name == "gradients"
        assert (role.is_chief, role.folds_statistics) == (False, False)
        assert role.owned([1, 2, 3]) == []
    assert {role.replicas_to_aggregate for role in (chief, *others)} == {count}


def test_shared():
    found = roles("shared", 3)
    assert {role.name for role in found} == {"gradients, covariances, inverses"}
    assert [role.folds_statistics for role in found] == [True, False, False]
    assert {role.replicas_to_aggregate for role in found} == {3}


def test_inverses_are_shared_by_cost():
    costs = [8.0, 1.0, 5.0, 4.0, 2.0]
    owned = [role.owned(costs) for role in roles("shared", 3)]
    assert sorted(i for indices in owned for i in indices) == [0, 1, 2, 3, 4]
    assert owned == [[0], [1, 2], [3, 4]]
    assert [role.owned([1.0]) for role in roles("shared", 3)] == [[0], [], []]
    first, *_, of_inverses = roles("dedicated_workers", 5)
    assert (first.owned([1.0, 1.0]), of_inverses.owned([1.0, 1.0])) == ([], [0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all", 2, 0), "strategy='all'. Accepted are 'chief_worker'"),
        (("shared", 0, 0), "num_workers=0. It must be a number of workers"),
        (("dedicated_workers", 2, 0), "num_workers=2. It needs at least 3 workers"),
        (("shared", 2, 2), "task_index=2 with num_workers=2. It must be an int from 0, the chief"),
        (("shared", 2, -1), "task_index=-1"),
        (("shared", 2, True), "task_index=True"),
    ],
)
def test_bad_roles(arguments, message):
    with pytest.raises(ValueError, match=message):
        WorkerRole(*arguments)


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


@pytest.mark.parametrize(
    ("batch_size", "counts"),
    [
        (1, ["100", "110", "111", "211"]),
        (2, ["110", "211", "222", "332"]),
        (3, ["111", "222", "333", "444"]),
    ],
)
def test_some_of_three_in_each_step(graph, session, batch_size, counts):
    counters, thunks = counting_thunks(3)
    step = v1.placeholder(tf.int64, [])
    ops = batch_execute(step, thunks, batch_size)
    assert cumulative(session, counters, ops, step, 4) == counts


@pytest.mark.parametrize("batch_size", [0, 4])
def test_bad_batch_size(graph, batch_size):
    _, thunks = counting_thunks(3)
    with pytest.raises(ValueError, match=f"3 ops over steps: batch_size={batch_size}"):
        batch_execute(tf.constant(0), thunks, batch_size)
