import threading
import time
from unittest import mock

import pytest
import tensorflow as tf

from replicate.estimator.cluster import sync_replicas
from replicate.estimator.cluster.sync_replicas import (
    SyncReplicasHook,
    is_synchronous,
    with_orderly_ends,
)

v1 = tf.compat.v1


class Model:
    """One weight that a SyncReplicasOptimizer trains, in the default graph."""

    def __init__(self, use_resource=True, rate=0.1, tokens=1):
        with v1.variable_scope("", use_resource=use_resource):
            weight = v1.get_variable("w", initializer=2.0)
            self.step = v1.train.get_or_create_global_step()
        descent = v1.train.GradientDescentOptimizer(rate)
        self.sync = v1.train.SyncReplicasOptimizer(descent, 1, total_num_replicas=tokens)
        self.train_op = self.sync.minimize(tf.square(weight), self.step)
        names = {"dtypes": tf.int64, "shapes": (), "shared_name": "sync_token_q"}
        self.queue = v1.FIFOQueue(-1, **names)
        self.size, self.is_closed = self.queue.size(), self.queue.is_closed()

    def train(self, hook, steps=3, target="", then=lambda session: None):
        creator = v1.train.ChiefSessionCreator(master=target)
        with v1.train.MonitoredSession(creator, [hook], stop_grace_period_secs=30) as session:
            while session.run(self.step) < steps:
                session.run(self.train_op)
            then(session)


def is_waiting():
    return any(thread.name.startswith("QueueRunner") for thread in threading.enumerate())


GIVEN = {
    "optimizer": lambda sync: sync,
    "function": lambda sync: lambda: sync,
    "hook": lambda sync: sync.make_session_run_hook(is_chief=True),
}


@pytest.mark.parametrize(
    ("use_resource", "given"),
    [(True, "optimizer"), (True, "function"), (True, "hook"), (False, "hook")],
)
def test_session_closes_at_once_and_leaves_no_thread(graph, use_resource, given):
    model = Model(use_resource)
    started = []
    model.train(
        SyncReplicasHook(GIVEN[given](model.sync), is_chief=True),
        then=lambda session: started.append(time.monotonic()),
    )
    assert time.monotonic() - started[0] < 30
    deadline = time.monotonic() + 30
    while is_waiting():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_error_of_the_chiefs_thread_is_raised(graph):
    model = Model(rate=v1.debugging.check_numerics(tf.constant(float("nan")), "no rate"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="no rate"):
        model.train(SyncReplicasHook(model.sync, is_chief=True))


@pytest.mark.parametrize("comes_back", [False, True])
def test_chief_ends_the_others_unless_it_comes_back(roles, comes_back):
    target = roles["chief", 0].master
    for steps in (3, 6):  # the second chief finds a queue that may be closed
        with tf.Graph().as_default():
            model = Model()
            hook = SyncReplicasHook(model.sync, True, comes_back=lambda: comes_back)
            model.train(hook, steps, target)
            with v1.Session(target) as session:
                assert session.run([model.is_closed, model.step]) == [not comes_back, steps]


def test_worker_leaves_a_token_for_everybody(graph):
    model = Model(tokens=3)
    hook = SyncReplicasHook(model.sync, is_chief=False)
    hook.begin()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        hook.end(session)
        assert session.run([model.size, model.is_closed]) == [3, False]


def test_hooks_of_tensorflow_get_an_orderly_end_and_a_missing_one_gives_a_warning(graph, own_log):
    assert with_orderly_ends([], True, bool) == []
    model = Model()
    other, own = v1.train.StepCounterHook(), SyncReplicasHook(model.sync, True)
    given = [other, model.sync.make_session_run_hook(True), own]
    first, second, third = with_orderly_ends(given, True, lambda: True)
    assert (first, third) == (other, own)
    assert isinstance(second, SyncReplicasHook)
    assert second.comes_back()
    assert own.comes_back()
    assert is_synchronous(graph)

    class Unknown(v1.train.SessionRunHook):
        """May run the optimizer."""

    with_orderly_ends([Unknown()], True, bool)
    assert "its hook is missing" not in own_log.text
    with_orderly_ends([other], True, bool)
    assert "its hook is missing" in own_log.text


def test_fewer_tokens_than_senders_give_a_warning(graph, own_log):
    hooks = [SyncReplicasHook(Model(tokens=2).sync, False)]
    with_orderly_ends([], False, bool, 2)
    with_orderly_ends(hooks, False, bool, 1)
    assert "tokens" not in own_log.text  # A process without the hook sends no gradients.
    with_orderly_ends(hooks, False, bool, 2)
    assert "number 3 of those that train" in own_log.text
    assert "only 2 tokens per step" in own_log.text


def test_other_optimizers_are_refused(graph):
    descent = v1.train.GradientDescentOptimizer(1.0)
    with pytest.raises(TypeError, match=r"got <tensorflow.*GradientDescent.*lambda: optimizer.wr"):
        SyncReplicasHook(lambda: descent, True).begin()
    with pytest.raises(ValueError, match="the graph has no synchronous update"):
        SyncReplicasHook(v1.train.SyncReplicasOptimizer(descent, 1), True).begin()


def test_error_of_the_chiefs_thread_counts_until_the_end():
    session, coordinator = mock.Mock(), mock.Mock()
    coordinator.should_stop.return_value = False
    aggregation = sync_replicas._Aggregation(session, coordinator)
    error = tf.errors.CancelledError(None, None, "The queue is closed.")
    aggregation.has_ended = True
    aggregation.request_stop(error)
    coordinator.request_stop.assert_not_called()
    aggregation.has_ended = False
    aggregation.request_stop(error)
    assert coordinator.request_stop.call_args.args == (error,)
    session.close.assert_called_once()
