"""Layers of any library: found in the graph of a replicated model, and trained on towers.

Keras is chosen before its first use, so each of its versions runs in a process of its own.
"""

import importlib.util
import json
import textwrap

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1
BATCH = 12


def convolution(x, name, channels):
    """Convolution, batch normalization, ReLU, max pooling."""
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [3, 3, x.shape[-1], channels])
        gamma = v1.get_variable("gamma", initializer=tf.ones([channels]))
        beta = v1.get_variable("beta", initializer=tf.zeros([channels]))
    y = tf.nn.conv2d(x, kernel, 1, "SAME")
    normal = y * tf.constant(0.5)
    z = normal * gamma + beta
    return (kernel, x, y), ((gamma, beta), normal, z), tf.nn.max_pool2d(tf.nn.relu(z), 2, 2, "SAME")


def model_fn(features, labels, mode, params):
    """A small ConvNet; registers its layers by hand or lets them be found."""
    (kernel, inputs, outputs), norm, x = convolution(features, "conv", 4)
    flat = tf.reshape(x, [-1, 2 * 2 * 4])
    with v1.variable_scope("linear"):
        dense = v1.get_variable("kernel", [16, 3]), v1.get_variable("bias", [3])
    logits = tf.matmul(flat, dense[0]) + dense[1]
    collection = kfac.graph_layer_collection()
    collection.register_categorical_predictive_distribution(logits, targets=labels, name="logits")
    if params["automatic"]:
        collection.auto_register_layers()
    else:
        collection.register_scale_and_shift(*norm)
        collection.register_conv2d(kernel, (1, 1, 1, 1), "SAME", inputs, outputs)
        collection.register_fully_connected(dense, flat, logits)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    optimizer = replicate.TowerOptimizer(
        lambda: kfac.PeriodicInvCovUpdateKfacOpt(
            invert_every=2,
            learning_rate=0.05,
            damping=0.05,
            estimation_mode="empirical",
            layer_collection=kfac.graph_layer_collection(),
        )
    )
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(towers, automatic):
    """Returns the losses of six steps and the values of all variables."""
    random = np.random.RandomState(0)
    images = random.randn(BATCH, 4, 4, 2).astype(np.float32)
    labels = random.randint(0, 3, BATCH)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        devices = [f"/cpu:{tower}" for tower in range(towers)]
        replicated = replicate.replicate_model_fn(model_fn, devices=devices)
        params = {"automatic": automatic}
        spec = replicated(tf.constant(images), tf.constant(labels), "train", params)
        start = np.random.RandomState(3)
        session.run(v1.global_variables_initializer())
        for variable in v1.trainable_variables():
            if variable.op.name.endswith("kernel"):
                value = start.randn(*variable.shape) / np.sqrt(np.prod(variable.shape[:-1]))
                variable.load(value.astype(np.float32), session)
        losses = [session.run([spec.loss, spec.train_op])[0] for _ in range(6)]
        blocks = [
            (type(block), block.settings, block.num_registered_towers)
            for block in sorted(kfac.graph_layer_collection().get_blocks(), key=lambda b: b.name)
        ]
        return losses, session.run({v.op.name: v for v in v1.global_variables()}), blocks


def test_found_layers_are_as_registered_by_hand_and_two_towers_as_one():
    losses, values, blocks = train(2, automatic=True)
    one, found, found_blocks = train(1, automatic=True)
    by_hand, expected, blocks_by_hand = train(1, automatic=False)
    assert found_blocks == blocks_by_hand
    assert blocks == [(*settings, 2) for *settings, _ in blocks_by_hand]
    assert one == by_hand
    assert losses[-1] < 0.8 * losses[0]
    assert sorted(values) == sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    np.testing.assert_allclose(losses, one, rtol=1e-5)
    for name, value in found.items():
        if "inverse" not in name:
            np.testing.assert_allclose(values[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


PROGRAM = textwrap.dedent(
    """
    import json, sys
    import numpy as np
    import tensorflow as tf
    import kfac, replicate
    from replicate.compat import layers as old

    v1 = tf.compat.v1
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    layers = tf.keras.layers

    def keras(x):
        x = layers.Conv2D(4, 3, dilation_rate=2, padding="same", activation="relu")(x)
        x = layers.BatchNormalization()(x, training=True)
        x = layers.SeparableConv2D(4, 3, strides=2, padding="same")(x)
        x = layers.Reshape([4, 4])(x)
        x = layers.Conv1D(4, 3, padding="causal")(x)
        x = layers.LayerNormalization()(x)
        x = layers.Dense(6, activation="tanh")(x)
        x = layers.MultiHeadAttention(2, 3)(x, x)
        x = layers.SimpleRNN(5, unroll=True)(x)
        return layers.Dense(3, name="logits")(x)

    def tf_layers(x):
        x = old.conv2d(x, 4, 3, strides=2, activation=tf.nn.relu)
        x = old.batch_normalization(x, training=True)
        return old.dense(old.flatten(x), 3)

    def normalized(x):
        x = layers.Dense(4)(tf.reshape(x, [-1, 32]))
        return layers.Dense(3)(layers.BatchNormalization(momentum=0.9)(x, training=True))

    def tf_layers_normalized(x):
        x = old.dense(tf.reshape(x, [-1, 32]), 4)
        return old.dense(old.batch_normalization(x, momentum=0.9, training=True), 3)

    def kfac_optimizer():
        return kfac.PeriodicInvCovUpdateKfacOpt(
            invert_every=5, learning_rate=0.05, damping=0.05, norm_constraint=0.001,
            layer_collection=kfac.graph_layer_collection(),
        )

    def model_fn(features, labels, mode, params):
        logits = globals()[params["style"]](features)
        collection = kfac.graph_layer_collection()
        if params["optimizer"] == "kfac":
            collection.register_softmax_cross_entropy_loss(logits, name="logits")
            collection.auto_register_layers()
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        makers = {"kfac": kfac_optimizer, "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9)}
        optimizer = replicate.TowerOptimizer(makers[params["optimizer"]])
        with v1.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def train(style, optimizer, towers):
        tf.keras.backend.clear_session()
        tf.keras.utils.set_random_seed(1)
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(1)
            random = np.random.RandomState(0)
            # The same rows in both halves of the batch: batch statistics are then equal, too.
            images = np.tile(random.randn(8, 4, 4, 2).astype("f"), [2, 1, 1, 1])
            labels = np.tile(random.randint(0, 3, 8), 2)
            devices = [f"/cpu:{tower}" for tower in range(towers)]
            replicated = replicate.replicate_model_fn(model_fn, devices=devices)
            params = {"style": style, "optimizer": optimizer}
            spec = replicated(tf.constant(images), tf.constant(labels), "train", params)
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            if optimizer == "momentum":
                for variable in v1.trainable_variables():
                    variable.load(0.3 * random.randn(*variable.shape).astype("f"), session)
            losses = [float(session.run([spec.loss, spec.train_op])[0]) for _ in range(5)]
            state = {v.op.name: session.run(v).ravel().tolist() for v in v1.global_variables()}
            blocks = kfac.graph_layer_collection().get_blocks() if optimizer == "kfac" else []
        return losses, state, {b.name: [type(b).__name__, b.num_registered_towers] for b in blocks}

    small = {"keras": "normalized", "tf_layers": "tf_layers_normalized"}
    found = {
        style: [train(style, "kfac", 2), *(train(small[style], "momentum", n) for n in (1, 2))]
        for style in sys.argv[1:]
    }
    print(json.dumps([found, getattr(tf.keras, "__version__", "2")[0]]))
    """
)

KERAS = {
    "conv2d/kernel": "ConvKFCBasicFB",
    "batch_normalization/gamma": "ScaleAndShiftFullFB",
    "separable_conv2d/depthwise_kernel": "DepthwiseConvDiagonalFB",
    "separable_conv2d/pointwise_kernel": "ConvKFCBasicFB",
    "conv1d/kernel": "ConvKFCBasicFB",
    "layer_normalization/gamma": "ScaleAndShiftFullFB",
    "dense/kernel": "FullyConnectedMultiIndepFB",
    "multi_head_attention/attention_output/kernel": "FullyConnectedMultiIndepFB",
    "simple_rnn/simple_rnn_cell/kernel": "FullyConnectedMultiIndepFB",
    "simple_rnn/simple_rnn_cell/recurrent_kernel": "FullyConnectedMultiIndepFB",
    "logits/kernel": "FullyConnectedKFACBasicFB",
}
HEADS = [f"multi_head_attention/{name}" for name in ("query", "key", "value")]
KERAS_3 = KERAS | {f"{head}/kernel": "FullyConnectedMultiIndepFB" for head in HEADS}
KERAS_2 = KERAS | {
    f"{head}/{part}": "NaiveDiagonalFB" for head in HEADS for part in ("kernel", "bias")
}
TF_LAYERS = {
    "conv2d/kernel": "ConvKFCBasicFB",
    "batch_normalization/gamma": "ScaleAndShiftFullFB",
    "dense/kernel": "FullyConnectedKFACBasicFB",
}
EXPECTED = {"2": KERAS_2, "3": KERAS_3, "tf_layers": TF_LAYERS}
LEGACY = {"TF_USE_LEGACY_KERAS": "1"}
needs_tf_keras = pytest.mark.skipif(
    importlib.util.find_spec("tf_keras") is None, reason="tf-keras is not installed"
)


@pytest.mark.parametrize(
    ("styles", "environment"),
    [
        pytest.param(["keras"], {}, id="keras", marks=pytest.mark.slow),
        # On TensorFlow 2.15 the other one is of Keras 2.
        pytest.param(["keras"], LEGACY, id="tf_keras", marks=[needs_tf_keras, pytest.mark.slow]),
        pytest.param(["tf_layers"], {}, id="tf_layers"),
    ],
)
def test_layers_of_other_libraries(styles, environment, run_python):
    done = run_python(PROGRAM, *styles, environment=environment, quick=True)
    assert done.code == 0, done.err
    results, version = json.loads(done.out.splitlines()[-1])
    assert version == "2" or not environment
    for style in styles:
        (losses, _, found), (_, one, _), (_, two, _) = results[style]
        expected = EXPECTED[style if style == "tf_layers" else version]
        assert found == {name: [kind, 2] for name, kind in expected.items()}
        assert losses[-1] < losses[0], style
        assert sorted(one) == sorted(two)
        for name, values in one.items():
            assert two[name] == pytest.approx(values, rel=1e-5, abs=1e-6), name
        moving = next(values for name, values in two.items() if "moving_mean" in name)
        assert max(map(abs, moving)) > 0.01
