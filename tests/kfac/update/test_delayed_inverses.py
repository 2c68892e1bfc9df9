"""Inverses that a thread computes beside the steps: of which averages, and when they change.

The thread changes no number: the same steps without one are the reference of most tests.
"""

import contextlib
import time

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.update.delayed_inverses import DelayedInverses

v1 = tf.compat.v1

PERIOD, DELAY, DAMPING, STEPS, SECS = 4, 2, 0.3, 11, 30


class Training:
    """Steps of a network, on batches that differ."""

    def __init__(self, network, **settings):
        arguments = {
            "learning_rate": 0.1,
            "damping": DAMPING,
            "estimation_mode": "empirical",
            "invert_every": PERIOD,
            "inverse_delay": DELAY,
            **settings,
        }
        self.optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
            layer_collection=network.collection, **arguments
        )
        self.train_op = self.optimizer.minimize(network.losses[0])
        self.variables = v1.global_variables()
        self._network = network
        self._batch = np.random.RandomState(3)

    def step(self, session):
        features = self._batch.randn(8, *self._network.features[0].shape[1:])
        labels = self._batch.randint(0, 3, 8)
        session.run(self.train_op, self._network.feed([features], [labels]))

    def forget(self, steps=0):
        """Begins with the first batch again, or with a later one."""
        self._batch = np.random.RandomState(3)
        for _ in range(steps):
            self._batch.randn(8, *self._network.features[0].shape[1:])
            self._batch.randint(0, 3, 8)

    @property
    def background(self):
        return self.optimizer._step._delayed._background


@contextlib.contextmanager
def opened(has_thread):
    """A session, perhaps with the thread that computes inverses."""
    with v1.Session() as session:
        coord = v1.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coord) if has_thread else []
        try:
            yield session
        finally:
            coord.request_stop()
            coord.join(threads, stop_grace_period_secs=SECS)


def trained(training, has_thread, steps=STEPS):
    """All variables after some steps from the initial ones."""
    training.forget()
    with opened(has_thread) as session:
        session.run(v1.global_variables_initializer())
        for _ in range(steps):
            training.step(session)
        return session.run(training.variables)


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_inverses_of_a_step_are_used_a_delay_later(build_mlp, damped_inverses):
    training = Training(build_mlp(layers=1, dtype="float64"))
    factors = training.optimizer.factors
    values = [factor.value for factor in factors]
    kept = [factor.inv_variables[0] for factor in factors]
    averages = []
    with opened(True) as session:
        session.run(v1.global_variables_initializer())
        for step in range(STEPS):
            training.step(session)
            averages.append(session.run(values))
            taken_at = 0 if step < PERIOD + DELAY else (step - DELAY) // PERIOD * PERIOD
            pairs = zip(
                session.run(kept), damped_inverses(averages[taken_at], DAMPING), strict=True
            )
            for found, expected in pairs:
                np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.abs(averages[0][0] - averages[PERIOD][0]).max() > 0.01


def test_a_thread_computes_while_steps_use_the_old_inverses(build_mlp):
    training = Training(build_mlp(layers=1))
    inverse = training.optimizer.factors[0].inv_variables[0]
    size = training.background._results.size()
    with opened(True) as session:
        session.run(v1.global_variables_initializer())
        while not session.run(training.background._has_thread.is_initialized()):
            time.sleep(0.01)
        for _ in range(PERIOD + 1):
            training.step(session)
        assert session.run(training.background._requested) == PERIOD
        before, deadline = session.run(inverse), time.monotonic() + SECS
        while not session.run(size):
            assert time.monotonic() < deadline, "the thread has not computed the inverses"
            time.sleep(0.01)
        training.step(session)
        np.testing.assert_array_equal(session.run(inverse), before)
        training.step(session)
        assert session.run(size) == 0
        assert (session.run(inverse) != before).any()


def test_the_thread_changes_no_number(build_network):
    """Averages of an eigenbasis move to new bases in the step that uses these."""
    kfac.graph_layer_collection().set_default_fully_connected_approximation("ekfac")
    settings = {"momentum_type": "regular", "num_burnin_steps": 3, "cov_update_every": 2}
    training = Training(build_network(), **settings)
    expected = trained(training, has_thread=False)
    assert all(np.isfinite(value).all() for value in expected)
    assert_same(trained(training, has_thread=True), expected)


def test_a_run_that_is_continued_makes_the_same_steps(build_mlp, tmp_path):
    """Its copy of the averages is in the checkpoint, also while its inverses are being computed."""
    steps = PERIOD + 1
    training = Training(build_mlp(layers=1))
    saver = v1.train.Saver()
    expected = trained(training, has_thread=False)
    training.forget()
    with opened(True) as session:
        session.run(v1.global_variables_initializer())
        for _ in range(steps):
            training.step(session)
        path = saver.save(session, str(tmp_path / "model"))
    training.forget(steps)
    with opened(False) as session:
        saver.restore(session, path)
        for _ in range(STEPS - steps):
            training.step(session)
        assert_same(session.run(training.variables), expected)


def test_an_error_of_the_thread_ends_the_steps_and_says_where_it_was(build_mlp, monkeypatch):
    computed, calls = DelayedInverses._computed, []

    def failing(self):
        calls.append(1)
        if len(calls) > 1:  # Those are computed in a step, for want of a thread.
            return computed(self)
        bad = tf.debugging.check_numerics(tf.constant(np.nan), "not a number")
        with v1.control_dependencies([bad]):
            return computed(self)

    monkeypatch.setattr(DelayedInverses, "_computed", failing)
    training = Training(build_mlp(layers=1))

    def steps():
        with v1.train.MonitoredSession(v1.train.ChiefSessionCreator()) as session:
            for _ in range(STEPS):
                training.step(session)

    with pytest.raises(tf.errors.InvalidArgumentError, match="not a number") as error:
        steps()
    assert "KFAC/fisher/inverses_beside_steps/" in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inverse_delay": 4}, r"inverse_delay=4\. It must be less than invert_every=4"),
        ({"inverse_delay": -1}, r"inverse_delay=-1\. It must be a number of steps"),
        ({"inverse_delay": 1.5}, r"inverse_delay=1\.5\. It must be a number of steps"),
        ({"invert_every": lambda: 4}, r"invert_every=<function .* It must be a number of steps"),
        ({"spread_inverses": True}, r"inverse_delay=2 does not go with spread_inverses=True"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        kfac.PeriodicInvCovUpdateKfacOpt(
            learning_rate=0.1,
            damping=0.1,
            layer_collection=kfac.LayerCollection(),
            **{"invert_every": 4, "inverse_delay": 2, **settings},
        )


def test_variables_on_servers_are_refused(graph):
    with v1.device("/job:ps/task:0"):
        weights = v1.get_variable("weights", [3, 1], use_resource=True)
    inputs = tf.ones([2, 3])
    outputs = inputs @ weights
    layers = kfac.LayerCollection()
    layers.register_fully_connected(weights, inputs, outputs)
    layers.register_normal_predictive_distribution(outputs)
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=0.1, damping=0.1, layer_collection=layers, inverse_delay=2
    )
    with v1.device("/job:ps/task:0"), pytest.raises(ValueError, match="needs all variables in t"):
        optimizer.minimize(tf.reduce_mean(outputs))
