"""K-FAC on workers without parameter servers: the steps of one tower."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate
from kfac.update.delayed_inverses import DelayedInverses
from replicate.all_reduce.step import current_step
from replicate.estimator.cluster import worker_group

v1 = tf.compat.v1


TWO_LAYERS = {"hidden": [5, 4], "out": [4, 1]}
ONE_LAYER = {"out": [5, 1]}


def model(
    layers=TWO_LAYERS, adapts=False, momentum="regular", kind=np.float64, approx=None, **settings
):
    """Dense layers, trained by K-FAC with statistics of the given labels."""

    def model_fn(features, labels, mode):
        collection = kfac.graph_layer_collection()
        hidden, labels = tf.cast(features["x"], kind), tf.cast(labels, kind)
        for seed, (name, shape) in enumerate(layers.items()):
            start = np.random.RandomState(seed).randn(*shape).astype(kind)
            with v1.variable_scope(name):
                weights = v1.get_variable("w", initializer=start)
                bias = v1.get_variable("b", initializer=np.zeros(shape[1], kind))
            inputs, outputs = hidden, hidden @ weights + bias
            collection.register_fully_connected((weights, bias), inputs, outputs, approx=approx)
            hidden = tf.tanh(outputs)
        collection.register_normal_predictive_distribution(outputs, targets=labels, name="loss")
        loss = tf.reduce_mean(tf.square(outputs - labels)) / 2
        optimizer = replicate.TowerOptimizer(
            lambda: kfac.PeriodicInvCovUpdateKfacOpt(
                learning_rate=None if momentum == "qmodel" else 0.05,
                momentum=None if momentum == "qmodel" else 0.9,
                damping=0.1,
                **{"invert_every": 2, **settings},
                cov_update_every=1,
                layer_collection=collection,
                estimation_mode="empirical",
                momentum_type=momentum,
                adapt_damping=adapts,
                damping_adaptation_interval=2,
            )
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


@pytest.mark.parametrize(
    "settings",
    [
        # ρ divides by a small difference: no float32.
        {"adapts": True, "momentum": "qmodel", "layers": ONE_LAYER},
        pytest.param(
            {
                "kind": np.float32,
                "spread_inverses": True,
                "spread_first_inverses": True,
                "invert_every": 3,
            },
            marks=pytest.mark.broad,
        ),
        pytest.param({"adapts": True}, marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_workers_with_towers_equal_one_tower(workers, tmp_path, settings):
    """Statistics are of the whole batch, and the inverses are divided over the workers."""
    model_fn = model(**settings)
    expected = workers.train(model_fn, workers.parts(0, 12)[0], tmp_path / "one", max_steps=6)
    towers = {"devices": workers.TOWERS, "uneven": "weighted", "max_steps": 6}
    inputs = workers.parts(0, 8, 12)
    found = workers.train_together(model_fn, inputs, tmp_path / "many", **towers)
    workers.assert_close(workers.only(found), expected, 5e-6)


@pytest.mark.broad
def test_inverses_beside_the_steps_equal_those_of_one_tower(workers, tmp_path):
    """Each of three workers computes a share of an EKFAC basis, which all use in the same step.

    They go on where one process has begun an inverse: checkpoints have the copy of the averages.
    """
    model_fn, folder = model(invert_every=3, inverse_delay=2, approx="ekfac"), tmp_path / "many"
    [whole], parts = workers.parts(0, 12), workers.parts(0, 3, 8, 12)
    expected = workers.train(model_fn, whole, tmp_path / "one", max_steps=13)
    assert workers.train(model_fn, whole, folder, max_steps=7)["kfac/snapshot_step"] == 6
    found = workers.train_together(model_fn, parts, folder, uneven="weighted", max_steps=13)
    assert workers.only(found)["kfac/snapshot_step"] == 12
    workers.assert_close(found[0], expected, 5e-6)


@pytest.mark.broad
def test_worker_whose_thread_fails_ends_with_its_error_and_the_others_lose_it(
    workers, tmp_path, monkeypatch
):
    computed, has_failed = DelayedInverses._computed, set()

    def failing(self):
        rank = current_step().rank
        if rank != 1 or rank in has_failed:
            return computed(self)
        has_failed.add(rank)  # Its thread; what a step computes itself is built later.
        bad = tf.debugging.check_numerics(tf.constant(np.nan), "not a number")
        with v1.control_dependencies([bad]):
            return computed(self)

    monkeypatch.setattr(DelayedInverses, "_computed", failing)
    monkeypatch.setattr(worker_group, "LOOK_SECS", 0.5)
    chief, worker = workers.train_together(
        model(layers=ONE_LAYER, kind=np.float32, invert_every=3, inverse_delay=2),
        workers.parts(0, 6, 12),
        tmp_path,
        workers.new(2),
        settings=replicate.AllReduce(timeout_secs=2, check_every=0),
    )
    assert isinstance(worker, tf.errors.InvalidArgumentError), worker
    assert "inverses_beside_steps" in str(worker)
    assert "not a number" in str(worker)
    assert isinstance(chief, replicate.ClusterError), chief


class LinearWorker:
    """K-FAC on linear regression in NumPy: λ = 0.1, rate 0.05, momentum 0.9, inverses every 2."""

    def __init__(self, x, y):
        self._x, self._y = np.c_[x, np.ones(len(x))].astype(np.float64), y
        start = np.random.RandomState(0).randn(5, 1)
        self.weights, self._velocity, self._steps = np.r_[start, [[0.0]]], 0.0, 0
        self.sums, self.weight = [np.zeros([6, 6]), np.zeros([1, 1])], 0.0

    def step(self):
        errors = self._x @ self.weights - self._y
        # The distribution has variance 1/2, and so twice the gradient of the loss.
        for kept, rows in zip(self.sums, (self._x, 2 * errors), strict=True):
            kept[:] = 0.95 * kept + rows.T @ rows / len(rows)
        self.weight = 0.95 * self.weight + 1
        if self._steps % 2 == 0:
            self.invert()
        gradient = self._x.T @ errors / len(errors)
        self._velocity = 0.9 * self._velocity + self._inverses[0] @ gradient @ self._inverses[1]
        self.weights = self.weights - 0.05 * self._velocity
        self._steps += 1

    def invert(self):
        factors = [kept / self.weight for kept in self.sums]
        ratio = np.sqrt(np.trace(factors[0]) / 6 / factors[1][0, 0])
        damping = ratio * np.sqrt(0.1), np.sqrt(0.1) / ratio
        self._inverses = [
            np.linalg.inv(factor + d * np.eye(len(factor)))
            for factor, d in zip(factors, damping, strict=True)
        ]


class LinearRounds:
    """Rounds of two `LinearWorker`s, with plain averaging; of factors, if asked for."""

    def __init__(self, workers, bounds, averages):
        self.workers = [LinearWorker(workers.X[a:b], workers.Y[a:b]) for a, b in bounds]
        self._shares = [(b - a) / 12 for a, b in bounds]
        self._averages = averages

    def round(self, steps):
        for worker in self.workers:
            for _ in range(steps):
                worker.step()
        weights = self._mean([worker.weights for worker in self.workers])
        sums = [self._mean(pair) for pair in zip(*(w.sums for w in self.workers), strict=True)]
        for worker in self.workers:
            worker.weights = weights
            if self._averages:
                worker.sums = [kept.copy() for kept in sums]
                worker.invert()

    def _mean(self, values):
        return sum(share * value for share, value in zip(self._shares, values, strict=True))


@pytest.mark.parametrize("averages", [True, pytest.param(False, marks=pytest.mark.broad)])
def test_a_round_averages_weights_and_factors_of_workers(workers, tmp_path, averages):
    """Of linear regression, against NumPy: two rounds of three steps, by 8 and 4 rows.

    Inverses are computed in even steps; and after a round, of what was averaged.
    """
    plain = v1.train.GradientDescentOptimizer(1.0)
    settings = replicate.AllReduce(
        every=3, outer_optimizer=plain, timeout_secs=60, averages_curvature=averages
    )
    found = workers.train_together(
        model(layers=ONE_LAYER),
        workers.parts(0, 8, 12),
        tmp_path,
        settings=settings,
        max_steps=6,
    )
    reference = LinearRounds(workers, [(0, 8), (8, 12)], averages)
    for _ in range(2):
        reference.round(3)
    for worker, values in zip(reference.workers, found, strict=True):
        weights = np.concatenate([values["out/w"], values["out/b"][None]])
        np.testing.assert_allclose(weights, worker.weights, rtol=1e-6)
    for name in ("out/w", "out/b"):
        np.testing.assert_array_equal(found[1][name], found[0][name])
