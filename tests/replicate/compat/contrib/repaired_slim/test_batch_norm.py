"""Batch normalization of tf.contrib.layers, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import slim
from replicate.compat.contrib.layers import batch_norm

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")
EPSILON = 0.001
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.normal(2.0, 3.0, [4, 3, 2, 5]).astype("f4")
ROWS = RANDOM.normal(-1.0, 2.0, [6, 5]).astype("f4")
SERIES = RANDOM.normal(1.0, 2.0, [3, 4, 5]).astype("f4")


def moments(x, unbiased, axes=None):
    axes = tuple(range(x.ndim - 1)) if axes is None else axes
    mean, variance = x.mean(axes), x.var(axes)
    count = np.prod([x.shape[axis] for axis in axes])
    return mean, variance, variance * count / (count - 1) if unbiased else variance


def variables():
    return {variable.op.name: variable for variable in v1.global_variables()}


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def either_kind(request):
    with v1.variable_scope("", use_resource=request.param):
        yield


@pytest.mark.parametrize(
    ("x", "fused"),
    [(IMAGES, None), (IMAGES, False), (ROWS, None), (ROWS, False), (SERIES, None)],
    ids=["images", "images-plain", "rows", "rows-plain", "series"],
)
def test_training_and_inference_agree_with_numpy(x, fused, either_kind):
    training = batch_norm(x, 0.9, scale=True, fused=fused, scope="bn")
    inference = batch_norm(
        x, 0.9, scale=True, fused=fused, is_training=False, scope="bn", reuse=True
    )
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    mean, variance, moving = moments(x, fused is None and x.ndim != 3)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        beta, gamma = v1.trainable_variables()
        session.run([beta.assign([1.0] * 5), gamma.assign([2.0] * 5)])
        wanted = 2 * (x - mean) / np.sqrt(variance + EPSILON) + 1
        np.testing.assert_allclose(session.run(training), wanted, atol=1e-4)
        session.run(updates)
        moved = session.run([variables()["bn/moving_mean"], variables()["bn/moving_variance"]])
        np.testing.assert_allclose(moved[0], 0.1 * mean, rtol=1e-5)
        np.testing.assert_allclose(moved[1], 0.9 + 0.1 * moving, rtol=1e-5)
        wanted = 2 * (x - moved[0]) / np.sqrt(moved[1] + EPSILON) + 1
        np.testing.assert_allclose(session.run(inference), wanted, atol=1e-4)
    assert len(updates) == 2


def test_variables_and_collections_are_those_of_tensorflow_1():
    batch_norm(
        IMAGES, scale=True, variables_collections={"beta": ["mine"]}, outputs_collections="out"
    )
    assert set(variables()) == {
        f"BatchNorm/{name}" for name in ("beta", "gamma", "moving_mean", "moving_variance")
    }
    assert [each.op.name for each in slim.get_model_variables()] == list(variables())
    assert [each.op.name for each in v1.trainable_variables()] == [
        "BatchNorm/beta",
        "BatchNorm/gamma",
    ]
    assert [each.op.name for each in v1.get_collection("mine")] == ["BatchNorm/beta"]
    assert list(slim.utils.convert_collection_to_dict("out")) == ["BatchNorm"]
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS, scope="BatchNorm")
    assert all(isinstance(update, tf.Operation) for update in updates)
    assert len(updates) == 2
    assert batch_norm(IMAGES.astype("f2")).dtype == tf.float16
    assert {each.dtype.base_dtype for each in v1.global_variables()} == {tf.float32}


@pytest.mark.parametrize("collection", [v1.GraphKeys.UPDATE_OPS, "mine", None])
@pytest.mark.parametrize("fused", [None, False])
def test_training_may_be_a_tensor(fused, collection):
    is_training = v1.placeholder(tf.bool, [])
    outputs = batch_norm(
        IMAGES, 0.5, is_training=is_training, fused=fused, updates_collections=collection
    )
    updates = v1.get_collection(collection) if collection else []
    mean, variance, _ = moments(IMAGES, False)
    moving = variables()["BatchNorm/moving_mean"]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        result, *_ = session.run([outputs, *updates], {is_training: False})
        np.testing.assert_allclose(result, IMAGES / np.sqrt(1 + EPSILON), rtol=1e-5)
        assert not session.run(moving).any()
        result, *_ = session.run([outputs, *updates], {is_training: True})
        np.testing.assert_allclose(result, (IMAGES - mean) / np.sqrt(variance + EPSILON), atol=1e-4)
        np.testing.assert_allclose(session.run(moving), 0.5 * mean, rtol=1e-5)


def test_channels_weights_and_adjustments_change_the_result(evaluate):
    def adjustment(shape):
        return tf.fill(shape[-1:], 2.0), tf.fill(shape[-1:], 3.0)

    def normalized(x, of):
        mean, variance, _ = moments(of, False)
        return (x - mean) / np.sqrt(variance + EPSILON)

    weights = np.array([1, 0, 2, 1], "f4")
    turned = IMAGES.transpose(0, 3, 1, 2)
    second = batch_norm(turned, data_format="NCHW", fused=False, scale=True)
    weighted = batch_norm(IMAGES, batch_weights=weights)
    adjusted = batch_norm(ROWS, adjustment=adjustment, scale=True)
    found = evaluate([tf.transpose(second, [0, 2, 3, 1]), weighted, adjusted])
    repeated = np.repeat(IMAGES, weights.astype(int), axis=0)
    wanted = (
        normalized(IMAGES, IMAGES),
        normalized(IMAGES, repeated),
        normalized(ROWS, ROWS) * 2 + 3,
    )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_moving_mean_is_corrected_for_its_start():
    x = v1.placeholder(tf.float32, [None, 5])
    batch_norm(x, 0.9, zero_debias_moving_mean=True, fused=False)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    assert {
        "BatchNorm/BatchNorm/moving_mean/biased",
        "BatchNorm/BatchNorm/moving_mean/local_step",
    } < set(variables())
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(updates, {x: ROWS})
        session.run(updates, {x: ROWS + 1})
        mean = ROWS.mean(0)
        np.testing.assert_allclose(
            session.run(variables()["BatchNorm/moving_mean"]),
            (0.9 * 0.1 * mean + 0.1 * (mean + 1)) / (1 - 0.9**2),
            rtol=1e-4,
        )


def test_batch_renormalization_corrects_towards_the_averages():
    clipping = {"rmin": 0.5, "rmax": 1.5, "dmax": 0.25}
    x = v1.placeholder(tf.float32, [None, 5])
    outputs = batch_norm(x, renorm=True, renorm_clipping=clipping, renorm_decay=0.8)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    mean, variance, _ = moments(ROWS, False)
    deviation = np.sqrt(variance + EPSILON)
    wanted = (ROWS - mean) / deviation * np.clip(deviation, 0.5, 1.5) + np.clip(mean, -0.25, 0.25)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(
            session.run([outputs, *updates], {x: ROWS})[0], wanted, atol=1e-4
        )
        averages = [variables()[f"BatchNorm/renorm_{name}"] for name in ("mean", "stddev")]
        np.testing.assert_allclose(
            session.run(averages), [0.2 * mean, 0.8 + 0.2 * deviation], rtol=1e-4
        )


def test_scopes_of_arguments_reach_it_and_the_layers():
    regularizer = slim.l2_regularizer(0.5)
    parameters = {"decay": 0.5, "param_regularizers": {"beta": regularizer}}
    with (
        slim.arg_scope([slim.batch_norm], is_training=False, activation_fn=tf.nn.relu),
        slim.arg_scope(
            [slim.fully_connected], normalizer_fn=slim.batch_norm, normalizer_params=parameters
        ),
        slim.arg_scope([slim.model_variable], device="/cpu:0"),
    ):
        slim.fully_connected(ROWS, 3, activation_fn=None, scope="fc")
    assert set(variables()) == {
        "fc/weights",
        *(f"fc/BatchNorm/{name}" for name in ("beta", "moving_mean", "moving_variance")),
    }
    assert len(v1.losses.get_regularization_losses()) == 1
    assert v1.get_collection(v1.GraphKeys.UPDATE_OPS) == []
    assert variables()["fc/BatchNorm/beta"].device.endswith("CPU:0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data_format": "CHWN"}, "batch_norm got data_format='CHWN': it is 'NHWC' or 'NCHW'"),
        ({"renorm": True, "zero_debias_moving_mean": True}, "renorm=True, which works neither"),
        (
            {"renorm": True, "updates_collections": None},
            "only with the default updates_collections",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        batch_norm(IMAGES, **arguments)


def test_unknown_shapes_are_named():
    with pytest.raises(ValueError, match="unknown rank"):
        batch_norm(v1.placeholder(tf.float32))
    with pytest.raises(ValueError, match=r"number of channels, axis -1.*\(2, 3, 3, None\)|\?"):
        batch_norm(v1.placeholder(tf.float32, [2, 3, 3, None]))
