import threading

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1

ROWS = 8


class Model:
    """One dense layer with softmax on a dataset of `batches` batches, or an endless one."""

    def __init__(self, batches=None):
        random = np.random.RandomState(0)
        data = random.randn(ROWS, 3).astype("float32"), random.randint(0, 4, ROWS)
        iterator = v1.data.make_initializable_iterator(
            tf.data.Dataset.from_tensors(data).repeat(batches)
        )
        x, y = iterator.get_next()
        self.start = iterator.initializer
        self.weight = v1.get_variable("w", initializer=tf.zeros([3, 4]))
        logits = tf.matmul(x, self.weight)
        self.layers = kfac.LayerCollection()
        self.layers.register_fully_connected(self.weight, x, logits)
        self.layers.register_categorical_predictive_distribution(logits, targets=y)
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        self.loss = tf.reduce_mean(cross_entropy)

    def optimizer(self, **kwargs):
        return kfac.AsyncInvCovUpdateKfacOpt(
            learning_rate=0.1,
            damping=0.1,
            layer_collection=self.layers,
            estimation_mode="empirical",
            **kwargs,
        )

    def initialize(self, session):
        session.run([v1.global_variables_initializer(), self.start])


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("kfac_update")]


def wait_until(is_true):
    """Waits, at most a minute, for what a thread in the background is to bring about."""
    pause = threading.Event()
    for _ in range(6000):
        if is_true():
            return
        pause.wait(0.01)
    raise AssertionError("It did not happen within a minute.")


def averaged(session, optimizer):
    """The weight of the moving average, which each update makes larger."""
    return session.run(optimizer.factors[0].cov_variables[1])


def test_trains_while_threads_update(graph, session):
    model = Model()
    optimizer = model.optimizer(cov_ema_decay=1.0)
    train = optimizer.minimize(model.loss)
    model.initialize(session)
    session.run(train)
    assert session.run(model.weight).any()  # Along the gradient: there are no inverses yet.
    with optimizer.updating(session):
        first = averaged(session, optimizer)
        assert first >= 1
        before = session.run(model.loss)
        for _ in range(20):
            session.run(train)
        assert session.run(model.loss) < before
        wait_until(lambda: averaged(session, optimizer) > first)
    assert threads() == []
    assert session.run(optimizer.counter) == 21


def test_start_and_stop_are_idempotent_and_start_again(graph, session):
    """Each start returns when the first cycle is complete; an exception stops the threads, too."""
    model = Model()
    optimizer = model.optimizer(cov_ema_decay=1.0, num_cov_inv_update_threads=1)
    optimizer.minimize(model.loss)
    model.initialize(session)
    optimizer.stop_cov_inv_ops(session)
    for _ in range(2):
        optimizer.run_cov_inv_ops(session)
        assert all(session.run(v).any() for v in optimizer._estimator.inv_variables[::2])
        optimizer.run_cov_inv_ops(session)
        assert sum(thread.name == "kfac_updates" for thread in threads()) == 1
        optimizer.stop_cov_inv_ops(session)
        optimizer.stop_cov_inv_ops(session)
        assert threads() == []
        session.run(v1.variables_initializer(optimizer._estimator.inv_variables))
    with pytest.raises(KeyError, match="ours"), optimizer.updating(session):
        raise KeyError("ours")
    assert threads() == []
    assert averaged(session, optimizer) >= 3


def test_the_updates_do_not_wait_for_what_a_wrapper_waits_for(graph, session):
    """Else each of them would compute all gradients too."""
    model = Model()
    optimizer = model.optimizer()
    gradients = optimizer.compute_gradients(model.loss)
    fail = tf.debugging.assert_equal(model.loss, -1.0, message="A gradient was computed.")
    with v1.control_dependencies([fail]):
        optimizer.apply_gradients(gradients)
    model.initialize(session)
    with optimizer.updating(session):
        pass


def test_what_cannot_be_started_or_made(graph):
    with pytest.raises(ValueError, match="call minimize or apply_gradients before"):
        Model().optimizer().run_cov_inv_ops(None)
    for number in (0, 1.5):
        with pytest.raises(ValueError, match=f"num_cov_inv_update_threads={number}.*of threads"):
            kfac.AsyncInvCovUpdateKfacOpt(num_cov_inv_update_threads=number)
    with pytest.raises(TypeError, match="starts and stops an AsyncInvCovUpdateKfacOpt"):
        kfac.AsyncUpdateHook(v1.train.GradientDescentOptimizer(0.1)).begin()


def test_hook_in_a_monitored_session(graph):
    model = Model()
    optimizer = model.optimizer()
    train = optimizer.minimize(model.loss)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, model.start)
    hooks = [kfac.AsyncUpdateHook(optimizer), kfac.AsyncUpdateHook(lambda: optimizer)]

    def train_until_an_exception():
        with v1.train.MonitoredSession(hooks=hooks) as session:
            for _ in range(3):
                session.run(train)
            assert threads()
            assert session.run(model.weight).any()
            raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        train_until_an_exception()
    assert threads() == []


def test_hook_raises_what_failed_in_the_background(graph):
    model = Model()
    is_broken = []

    def check(x):
        if is_broken:
            raise ValueError("The input broke.")
        return x

    damping = tf.numpy_function(check, [np.float32(0.1)], tf.float32)
    damping.set_shape([])
    optimizer = kfac.AsyncInvCovUpdateKfacOpt(
        learning_rate=0.1, damping=damping, layer_collection=model.layers
    )
    train = optimizer.minimize(model.loss)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, model.start)
    hooks = [kfac.AsyncUpdateHook(optimizer)]

    def train_until_it_breaks():
        with v1.train.MonitoredSession(hooks=hooks) as session:
            session.run(train)
            is_broken.append(True)
            wait_until(lambda: not threads())
            is_broken.clear()  # From here on only the background's error is left.
            session.run(train)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"The input broke\."):
        train_until_it_breaks()
