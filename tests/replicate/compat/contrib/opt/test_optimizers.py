"""Optimizers of tf.contrib.opt against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import EstimatorSpec, TowerOptimizer, replicate_model_fn
from replicate.compat.contrib import opt

v1 = tf.compat.v1
DRAWS = np.random.default_rng(0)
START = DRAWS.normal(size=[4, 2]).astype("f4")
ROWS = np.array([[0, 2], [2, 3], [0, 0]])
FACTORS = DRAWS.normal(size=[3, 2, 2]).astype("f4")
RATE, BETA1, BETA2, EPSILON = 0.1, 0.9, 0.99, 1e-3


def gradients():
    """The gradients of the steps, dense."""
    for rows, factors in zip(ROWS, FACTORS, strict=True):
        dense = np.zeros([4, 2])
        np.add.at(dense, rows, factors)
        yield dense, np.unique(rows)


def train(optimizer, sparse, resource=True, **settings):
    """Returns the variable after three steps, and the names of all variables."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.get_variable("x", initializer=START, use_resource=resource)
        rows, factors = v1.placeholder(tf.int32, [2]), v1.placeholder(tf.float32, [2, 2])
        full = x if sparse else 1.0 * x
        loss = tf.reduce_sum(tf.gather(full, rows) * factors)
        step = optimizer().minimize(loss, v1.train.get_or_create_global_step(), **settings)
        session.run(v1.global_variables_initializer())
        for feed in zip(ROWS, FACTORS, strict=True):
            session.run(step, dict(zip((rows, factors), feed, strict=True)))
        return session.run(x), [each.op.name for each in v1.global_variables()]


def adam(lazy=False, nesterov=False, maximum=False, decay=0.0):
    x, m, v = START.astype("f8"), np.zeros([4, 2]), np.zeros([4, 2])
    for number, (grad, rows) in enumerate(gradients(), 1):
        at = rows if lazy else slice(None)
        x[at] -= decay * x[at]
        g = grad[at]
        m[at] = BETA1 * m[at] + (1 - BETA1) * g
        if maximum:
            v[at] = np.maximum(BETA2 * v[at], np.abs(g))
            x[at] -= RATE / (1 - BETA1**number) * m[at] / (v[at] + EPSILON)
            continue
        v[at] = BETA2 * v[at] + (1 - BETA2) * g**2
        used = BETA1 * m[at] + (1 - BETA1) * g if nesterov else m[at]
        rate = RATE * np.sqrt(1 - BETA2**number) / (1 - BETA1**number)
        x[at] -= rate * used / (np.sqrt(v[at]) + EPSILON)
    return x


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("sparse", "resource"),
    [
        (True, True),
        (False, True),
        (True, False),
        pytest.param(False, False, marks=pytest.mark.broad),
    ],
)
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (opt.LazyAdamOptimizer, "lazy"),
        (opt.NadamOptimizer, "nesterov"),
        (opt.AdaMaxOptimizer, "maximum"),
    ],
)
def test_variants_of_adam(kind, how, sparse, resource):
    found, names = train(lambda: kind(RATE, BETA1, BETA2, EPSILON), sparse, resource)
    lazy = sparse and how in ("lazy", "maximum")
    close(found, adam(lazy=lazy, nesterov=how == "nesterov", maximum=how == "maximum"))
    slot = "AdaMax" if how == "maximum" else "Adam"
    assert {f"x/{slot}", f"x/{slot}_1", "beta1_power", "beta2_power"} <= set(names)


@pytest.mark.parametrize(
    ("resource", "decay", "settings"),
    [(True, 0.05, {}), (False, 0.05, {}), (False, 0.0, {"decay_var_list": []})],
)
def test_adam_with_weight_decay(resource, decay, settings):
    found, names = train(
        lambda: opt.AdamWOptimizer(0.05, RATE, BETA1, BETA2, EPSILON), False, resource, **settings
    )
    close(found, adam(decay=decay))
    assert {"x/AdamW", "x/AdamW_1"} <= set(names)


@pytest.mark.parametrize("resource", [True, False])
def test_weights_of_sparse_gradients_decay_by_row(resource):
    kind = opt.extend_with_decoupled_weight_decay(v1.train.MomentumOptimizer)
    found, _ = train(lambda: kind(0.05, RATE, 0.0), True, resource)
    x = START.astype("f8")
    for grad, rows in gradients():
        x[rows] -= 0.05 * x[rows]
        x -= RATE * grad
    close(found, x)


def test_momentum_with_weight_decay_by_a_function():
    found, names = train(lambda: opt.MomentumWOptimizer(lambda: 0.05, RATE, 0.8), False)
    x, moved = START.astype("f8"), 0
    for grad, _ in gradients():
        x -= 0.05 * x
        moved = 0.8 * moved + grad
        x -= RATE * moved
    close(found, x)
    assert "x/MomentumW" in names


@pytest.mark.parametrize(("sparse", "resource"), [(False, True), (False, False), (True, True)])
@pytest.mark.parametrize(("nesterov", "skipped"), [(False, ()), (True, ()), (False, ["x:"])])
def test_rate_of_lars_is_scaled_by_norms(sparse, resource, nesterov, skipped):
    settings = {"eeta": 0.1, "epsilon": 0.01, "skip_list": skipped, "use_nesterov": nesterov}
    found, names = train(
        lambda: opt.LARSOptimizer(lambda: RATE, 0.8, 0.05, **settings), sparse, resource
    )
    x, moved = START.astype("f8"), 0
    for grad, _ in gradients():
        norms = np.linalg.norm(x), np.linalg.norm(grad)
        scale = 1 if skipped else 0.1 * norms[0] / (norms[1] + 0.05 * norms[0] + 0.01)
        decayed = grad if skipped else grad + 0.05 * x
        moved = 0.8 * moved + decayed
        x -= RATE * scale * (decayed + 0.8 * moved if nesterov else moved)
    close(found, x)
    assert "x/LARSOptimizer" in names
    with pytest.raises(ValueError, match="momentum must be >= 0, got -1"):
        opt.LARSOptimizer(0.1, momentum=-1)


@pytest.mark.parametrize("sequential", [True, False])
def test_moving_averages_and_their_saver(tmp_path, sequential):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.get_variable("x", initializer=[1.0])
        other = v1.get_variable("other", initializer=[5.0])
        average = opt.MovingAverageOptimizer(
            v1.train.MomentumOptimizer(0.5, 0.9), 0.8, sequential_update=sequential
        )
        with pytest.raises(ValueError, match="before minimize"):
            average.swapping_saver()
        step = average.minimize(tf.reduce_sum(x), v1.train.get_or_create_global_step())
        savers = average.swapping_saver(), average.swapping_saver({"x": x, "y": other})
        session.run(v1.global_variables_initializer())
        session.run(step)
        path, of_some = (
            each.save(session, str(tmp_path / name))
            for each, name in zip(savers, "ab", strict=True)
        )
        assert average.get_slot(x, "momentum") in average.variables()
        assert average.get_slot_names() == ["momentum"]
        assert session.run([x, other]) == [[0.5], [5.0]]
    if sequential:
        np.testing.assert_allclose(tf.train.load_variable(path, "x"), [0.8 * 1 + 0.2 * 0.5])
    assert tf.train.load_variable(path, "x/ExponentialMovingAverage") == [0.5]
    assert tf.train.load_variable(path, "other") == [5.0]
    assert tf.train.list_variables(of_some) == [("x", [1]), ("y", [1])]
    with pytest.raises(TypeError, match=r"MovingAverage wraps a tf\.compat\.v1.*got 3"):
        opt.MovingAverageOptimizer(3)


@pytest.mark.parametrize("how", ["wrapped", "around", "inside"])
def test_saver_of_moving_averages_on_towers(tmp_path, how):
    def model_fn(features, labels, mode):
        x = v1.get_variable("x", initializer=[1.0, 2.0])
        loss = tf.reduce_mean(tf.linalg.matvec(features, x) ** 2)
        inner = v1.train.MomentumOptimizer(0.1, 0.9)
        average = opt.MovingAverageOptimizer(
            TowerOptimizer(inner) if how == "inside" else inner, 0.5
        )
        if not savers:
            with pytest.raises(ValueError, match="before minimize"):
                average.swapping_saver()
        step = (TowerOptimizer(average) if how == "around" else average).minimize(loss)
        savers.append(average.swapping_saver(max_to_keep=3))
        scaffold = v1.train.Scaffold(saver=savers[-1])
        return EstimatorSpec(mode, loss=loss, train_op=step, scaffold=scaffold)

    def saved(towers):
        savers.clear()
        settings = {"devices": ["/cpu:0"] * towers, "wrap_optimizers": how == "wrapped"}
        with tf.Graph().as_default(), v1.Session() as session:
            spec = replicate_model_fn(model_fn, **settings)(tf.constant(START), None, "train")
            savers[0].build()
            spec.scaffold.saver.build()
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for _ in range(3):
                session.run(spec.train_op)
            now = session.run({v.op.name: v for v in v1.global_variables()})
            paths = [each.save(session, f"{tmp_path}/{i}") for i, each in enumerate(savers[::3])]
        found = [
            {name: tf.train.load_variable(path, name) for name, _ in tf.train.list_variables(path)}
            for path in (paths[0], paths[-1])
        ]
        return now, *found

    savers = []
    one, *_ = saved(1)
    for towers in (1, 2, 4):
        now, *found = saved(towers)
        assert set(now) == {"x", "x/Momentum", "x/ExponentialMovingAverage"}
        swapped = {"x": "x/ExponentialMovingAverage", "x/ExponentialMovingAverage": "x"}
        for name, value in one.items():
            np.testing.assert_allclose(now[name], value, rtol=1e-5)
            for each in found:
                np.testing.assert_array_equal(each[swapped.get(name, name)], now[name])
