"""Two towers train what one tower trains, whatever library made the layers.

Keras is chosen before its first use, so each of its versions runs in a process of its own.
"""

import importlib.util
import json
import textwrap

import pytest

PROGRAM = textwrap.dedent(
    """
    import json, sys
    import numpy as np
    import tensorflow as tf
    import replicate

    v1 = tf.compat.v1
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    ROWS = np.random.default_rng(0).normal(size=[8, 3]).astype(np.float32)
    START = {"kernel": 0.5, "gamma": 1.0, "moving_variance": 1.0}

    def tf_layers(features):
        hidden = v1.layers.dense(features, 4)
        return v1.layers.batch_normalization(hidden, momentum=0.9, training=True)

    def keras(features):
        hidden = tf.keras.layers.Dense(4)(features)
        return tf.keras.layers.BatchNormalization(momentum=0.9)(hidden, training=True)

    def slim_style(features):
        kernel = v1.get_variable("dense/kernel", [3, 4])
        hidden = features @ kernel + v1.get_variable("dense/bias", [4])
        mean, variance = tf.nn.moments(hidden, [0])
        for name, value in (("moving_mean", mean), ("moving_variance", variance)):
            moving = v1.get_variable(f"bn/{name}", [4], trainable=False)
            update = v1.assign_sub(moving, 0.1 * (moving - value))
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        gamma, beta = v1.get_variable("bn/gamma", [4]), v1.get_variable("bn/beta", [4])
        return tf.nn.batch_normalization(hidden, mean, variance, beta, gamma, 1e-3)

    def model_fn(features, labels, mode, params):
        outputs = globals()[params["style"]](features)
        loss = tf.reduce_mean(tf.square(outputs - 1.0))
        optimizer = replicate.TowerOptimizer(v1.train.MomentumOptimizer(0.1, 0.9))
        with v1.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def train(style, towers, rows):
        tf.keras.backend.clear_session()
        with tf.Graph().as_default():
            devices = [f"/cpu:{index}" for index in range(towers)]
            replicated = replicate.replicate_model_fn(model_fn, devices=devices)
            spec = replicated(tf.constant(rows), None, "train", {"style": style})
            variables = {v.op.name: v for v in v1.global_variables()}
            with v1.Session() as session:
                session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
                for name, variable in variables.items():
                    start = START.get(name.rpartition("/")[2], 0.0)
                    values = np.linspace(start, start * 1.5, int(np.prod(variable.shape)))
                    if name != "global_step":
                        variable.load(values.reshape(variable.shape).astype(np.float32), session)
                session.run(v1.local_variables_initializer())
                for _ in range(5):
                    session.run(spec.train_op)
                return {n: np.ravel(session.run(v)).tolist() for n, v in variables.items()}

    # The same rows in both halves of the batch: batch statistics are then equal, too.
    rows = np.tile(ROWS, [2, 1])
    found = {style: [train(style, towers, rows) for towers in (1, 2)] for style in sys.argv[1:]}
    print(json.dumps([found, getattr(tf.keras, "__version__", "2")[0]]))
    """
)

LEGACY = {"TF_USE_LEGACY_KERAS": "1"}
needs_tf_keras = pytest.mark.skipif(
    importlib.util.find_spec("tf_keras") is None, reason="tf-keras is not installed"
)


@pytest.mark.parametrize(
    ("styles", "environment"),
    [
        pytest.param(["slim_style", "keras"], {}, id="keras-3"),
        pytest.param(["keras", "tf_layers"], LEGACY, id="tf_keras", marks=needs_tf_keras),
    ],
)
def test_two_towers_equal_one(styles, environment, run_python):
    done = run_python(PROGRAM, *styles, environment=environment, quick=True)
    assert done.code == 0, done.err
    results, version = json.loads(done.out.splitlines()[-1])
    assert version == "2" or not environment
    for style in styles:
        assert_equal(*results[style])


def assert_equal(one, two):
    assert sorted(one) == sorted(two)
    assert len(two) == 4 + 4 + 2 + 1, "four weights, their momentum, two statistics, one step"
    for name, values in one.items():
        assert two[name] == pytest.approx(values, rel=1e-5, abs=1e-6), name
    moving = next(values for name, values in two.items() if "moving_mean" in name)
    assert max(map(abs, moving)) > 0.01
