"""K-FAC on N towers follows the path of one tower, whatever the model and the way to estimate."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1

STEPS, BATCH, CLASSES = 8, 24, 3  # 24 rows are equal shards for 1, 2, 3, 4 and 8 towers.
TOLERANCE = {"float32": 5e-6, "float64": 1e-11}
"""Of the largest weight."""

TIME, IDS = 3, 7


def variable(name, shape, dtype, seed, scale=1.0):
    values = np.random.RandomState(seed).randn(*shape) * scale / np.sqrt(shape[0])
    return v1.get_variable(name, dtype=dtype, initializer=tf.constant(values, dtype))


def dense(layers, name, inputs, units, seed):
    weight = variable(f"{name}/w", [inputs.shape[-1], units], inputs.dtype, seed)
    bias = variable(f"{name}/b", [units], inputs.dtype, seed + 1)
    outputs = inputs @ weight + bias
    layers.register_fully_connected((weight, bias), inputs, outputs)
    return outputs


def perceptron(features, layers):
    hidden = tf.tanh(dense(layers, "first", features, 6, seed=1))
    return dense(layers, "last", hidden, CLASSES, seed=3)


def convnet(features, layers):
    """A convolution whose outputs are normalised by fixed statistics, scaled and shifted."""
    kernel = variable("conv/w", [3, 3, 1, 4], features.dtype, 1)
    convolved = tf.nn.conv2d(features, kernel, 1, "SAME")
    layers.register_conv2d(kernel, (1, 1, 1, 1), "SAME", features, convolved)
    scale = v1.get_variable(
        "norm/gamma", dtype=features.dtype, initializer=tf.ones([4], features.dtype)
    )
    shift = variable("norm/beta", [4], features.dtype, 2)
    scaled = convolved * scale + shift
    layers.register_scale_and_shift((scale, shift), convolved, scaled)
    pooled = tf.nn.avg_pool2d(tf.nn.relu(scaled), 2, 2, "VALID")
    return dense(layers, "last", tf.reshape(pooled, [-1, 16]), CLASSES, seed=3)


def embedding(features, layers, dtype):
    table = variable("table", [IDS, 5], dtype, 1)
    found = tf.gather(tf.identity(table), features)
    layers.register_fully_connected(
        table, features, found, dense_inputs=False, approx="kron_in_diag"
    )
    return dense(layers, "last", tf.tanh(found), CLASSES, seed=3)


def recurrent(features, layers):
    """An unrolled recurrent network, with the chain approximation."""
    states = [tf.zeros_like(features[:, 0])]
    weight = variable("cell/w", [4, 4], features.dtype, 1)
    sums = []
    for step in range(TIME):
        sums.append(states[-1] @ weight + features[:, step])
        states.append(tf.tanh(sums[-1]))
    layers.register_fully_connected_multi(weight, states[:-1], sums, approx="kron_series_2")
    return dense(layers, "last", states[-1], CLASSES, seed=3)


MODELS = {
    "perceptron": ([5], perceptron),
    "convnet": ([4, 4, 1], convnet),
    "embedding": (None, embedding),
    "recurrent": ([TIME, 4], recurrent),
}


def data(model, dtype):
    """STEPS batches of (features, labels)."""
    random = np.random.RandomState(0)
    shape, _ = MODELS[model]
    labels = random.randint(0, CLASSES, [STEPS, BATCH]).astype("int32")
    if shape is None:
        return random.randint(0, IDS, [STEPS, BATCH]).astype("int32"), labels
    return random.randn(STEPS, BATCH, *shape).astype(dtype), labels


def model_fn(features, labels, mode, params):
    layers = kfac.graph_layer_collection()
    _, network = MODELS[params["model"]]
    if params["model"] == "embedding":
        network = functools.partial(embedding, dtype=params["dtype"])
    logits = network(features, layers)
    layers.register_categorical_predictive_distribution(logits, targets=labels, name="logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    optimizer = replicate.TowerOptimizer(
        lambda: kfac.PeriodicInvCovUpdateKfacOpt(
            invert_every=3,
            spread_inverses=params["spreads"],
            spread_first_inverses=params["spreads"],
            learning_rate=0.05,
            damping=0.1,
            norm_constraint=0.01,
            layer_collection=layers,
            estimation_mode=params["estimation_mode"],
        )
    )
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


@functools.cache
def trained(model, estimation_mode, dtype, towers, spreads):
    """Returns the losses, and all variables by name, of STEPS steps."""
    features, labels = data(model, dtype)
    with tf.Graph().as_default():
        x = v1.placeholder(features.dtype, features.shape[1:])
        y = v1.placeholder(labels.dtype, [BATCH])
        replicated = replicate.replicate_model_fn(
            model_fn,
            loss_reduction=v1.losses.Reduction.MEAN,
            devices=[f"/cpu:{index}" for index in range(towers)],
        )
        params = {
            "model": model,
            "estimation_mode": estimation_mode,
            "dtype": dtype,
            "spreads": spreads,
        }
        spec = replicated(x, y, "train", params=params)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            losses = [
                session.run([spec.loss, spec.train_op], {x: batch, y: targets})[0]
                for batch, targets in zip(features, labels, strict=True)
            ]
            return losses, session.run({v.op.name: v for v in v1.global_variables()})


@pytest.mark.parametrize(
    ("model", "estimation_mode", "dtype", "towers", "spreads"),
    [
        ("convnet", "exact", "float64", 3, True),
        ("recurrent", "empirical", "float64", 2, True),
        pytest.param("embedding", "exact", "float64", 2, False, marks=pytest.mark.broad),
        pytest.param("convnet", "exact", "float32", 2, False, marks=pytest.mark.broad),
        *(
            pytest.param(*case, False, marks=pytest.mark.slow)
            for case in itertools.product(
                sorted(MODELS), ("empirical", "exact"), ("float32", "float64"), (2, 3, 4, 8)
            )
        ),
    ],
)
def test_towers_equal_one_tower(model, estimation_mode, dtype, towers, spreads):
    losses, expected = trained(model, estimation_mode, dtype, 1, spreads)
    got_losses, got = trained(model, estimation_mode, dtype, towers, spreads)
    assert losses[-1] != losses[0], "the weights must have moved for this to mean something"
    np.testing.assert_allclose(got_losses, losses, rtol=2 * TOLERANCE[dtype])
    assert sorted(got) == sorted(expected)
    weights = [name for name in expected if not name.startswith("kfac/") and "KFAC" not in name]
    largest = max(np.abs(expected[name]).max() for name in weights if name != "global_step")
    for name in weights:
        assert np.abs(got[name] - expected[name]).max() <= TOLERANCE[dtype] * largest, name
