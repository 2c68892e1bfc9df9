"""Towers, K-FAC, batches sent ahead and loss scales on GPUs: the same numbers as on the CPU.

`make gpu-check` runs these tests first. One GPU takes two towers, several GPUs take one each.
"""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import model_deploy
import replicate

v1 = tf.compat.v1

pytestmark = pytest.mark.gpu

STEPS, ROWS, INPUTS, CLASSES = 8, 24, 6, 3
TOLERANCE = 1e-5
"""Of the largest weight: kernels of another device add in another order."""


@pytest.fixture(autouse=True)
def no_tensor_float_32():
    """Computes products in float32."""
    was_enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    yield
    tf.config.experimental.enable_tensor_float_32_execution(was_enabled)


def new_session():
    """Returns a session in which ops without a kernel for GPUs run on the CPU."""
    return v1.Session(config=v1.ConfigProto(allow_soft_placement=True))


def gpus():
    """Returns two to four GPU names, the first one twice if it is alone."""
    names = model_deploy.local_devices("GPU")
    return list(names[:4]) if len(names) > 1 else [*names, *names]


def data():
    random = np.random.default_rng(0)
    features = random.normal(size=[STEPS * ROWS, INPUTS]).astype(np.float32)
    return features, features[:, :CLASSES].argmax(axis=1).astype(np.int32)


def batches(ahead=False):
    dataset = tf.data.Dataset.from_tensor_slices(data()).repeat().batch(ROWS, drop_remainder=True)
    return dataset.apply(replicate.prefetch_to_towers) if ahead else dataset


def initial(shape):
    values = np.random.default_rng(1).normal(size=shape) / np.sqrt(shape[0])
    return tf.constant(values.astype(np.float32))


def kfac_optimizer():
    return kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=0.05,
        damping=0.1,
        layer_collection=kfac.graph_layer_collection(),
        norm_constraint=0.01,
        estimation_mode="empirical",
        invert_every=3,
    )


OPTIMIZERS = {"momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9), "kfac": kfac_optimizer}


def model_fn(features, labels, mode, params):
    dtype = params.get("dtype", tf.float32)
    weights = v1.get_variable("w", initializer=initial([INPUTS, CLASSES]))
    bias = v1.get_variable("b", initializer=tf.zeros([CLASSES]))
    logits = tf.cast(features, dtype) @ tf.cast(weights, dtype) + tf.cast(bias, dtype)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, tf.cast(logits, tf.float32))
    if params["optimizer"] == "kfac":
        layers = kfac.graph_layer_collection()
        layers.register_fully_connected((weights, bias), features, logits)
        layers.register_categorical_predictive_distribution(logits, targets=labels, name="logits")
    optimizer = replicate.TowerOptimizer(
        OPTIMIZERS[params["optimizer"]], loss_scale=params.get("loss_scale")
    )
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(devices, optimizer="momentum", ahead=False, steps=STEPS, **params):
    """Returns the variables by name after some steps."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        iterator = v1.data.make_initializable_iterator(batches(ahead))
        features, labels = iterator.get_next()
        replicated = replicate.replicate_model_fn(model_fn, devices=devices)
        spec = replicated(features, labels, "train", {"optimizer": optimizer, **params})
        with new_session() as session:
            session.run(v1.global_variables_initializer())
            session.run([iterator.initializer, v1.tables_initializer()])
            for _ in range(steps):
                session.run(spec.train_op)
            return session.run({v.op.name: v for v in v1.global_variables()})


def check_weights(got, expected, tolerance=TOLERANCE):
    largest = max(np.abs(expected[name]).max() for name in "wb")
    assert np.abs(expected["b"]).max() > 0, "the weights must have moved for this to mean something"
    for name in "wb":
        assert np.abs(got[name] - expected[name]).max() <= tolerance * largest, name


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_towers_equal_one_tower(optimizer):
    check_weights(train(gpus(), optimizer), train(gpus()[:1], optimizer))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_gpu_equals_cpu(optimizer):
    check_weights(train(gpus()[:1], optimizer), train(["/cpu:0"], optimizer))


def test_batches_sent_ahead_are_the_same_batches():
    check_weights(train(gpus(), ahead=True), train(gpus()))


def test_loss_scale_skips_overflows_and_trains_in_float16():
    scale = replicate.DynamicLossScale(initial=2.0**24)
    got = train(gpus(), steps=3 * STEPS, dtype=tf.float16, loss_scale=scale)
    skipped = got["loss_scale/skipped_steps"]
    assert 0 < skipped < STEPS
    assert got["loss_scale/factor"] == 2.0 ** (24 - skipped)
    assert got["global_step"] == 3 * STEPS - skipped
    assert all(np.isfinite(got[name]).all() for name in "wb")


def test_towers_run_on_their_gpus():
    with tf.Graph().as_default(), new_session() as session:
        spec = replicate.replicate_model_fn(model_fn, devices=gpus())(
            *v1.data.make_one_shot_iterator(batches()).get_next(),
            "train",
            {"optimizer": "momentum"},
        )
        session.run(v1.global_variables_initializer())
        metadata = v1.RunMetadata()
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        session.run(spec.train_op, options=options, run_metadata=metadata)
    used = {stats.device.rpartition("/device:")[2] for stats in metadata.step_stats.dev_stats}
    assert {name.removeprefix("/device:") for name in gpus()} <= used
