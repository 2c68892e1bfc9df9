"""A run with K-FAC that was killed ends with the very bits of one that was not.

With dropout, sampled curvature, a rate and momentum that K-FAC chooses, and a damping that adapts:
when a checkpoint is written, the step before it waits for the judgement that the next one makes.
"""

import signal
import textwrap

import numpy as np
import pytest
import tensorflow as tf

LAST_STEP, SAVE_EVERY, KILL_AT = 14, 4, 10

PROGRAM = textwrap.dedent(
    """
    import os, signal, sys
    import numpy as np
    import tensorflow as tf
    import kfac, replicate

    v1 = tf.compat.v1
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    tf.config.experimental.enable_op_determinism()

    def input_fn():
        random = np.random.default_rng(0)
        images = random.normal(size=[40, 6, 6, 1]).astype(np.float32)
        dataset = tf.data.Dataset.from_tensor_slices((images, np.arange(40) % 4))
        batches = dataset.shuffle(40, seed=5).repeat().batch(8, drop_remainder=True)
        first = images[:8], np.arange(8) % 4
        return batches.scan(first, lambda last, now: (now, ({"now": now, "last": last}, now[1])))

    def forward(images):
        kernel, bias = v1.get_variable("conv/w", [3, 3, 1, 4]), v1.get_variable("conv/b", [4])
        convolved = tf.nn.bias_add(tf.nn.conv2d(images, kernel, 2, "SAME"), bias)
        return (kernel, bias), convolved, tf.reshape(tf.nn.tanh(convolved), [-1, 36])

    def logits_of(flat):
        weights = v1.get_variable("dense/w", [36, 4])
        return weights, flat @ weights

    def loss_fn(batch):
        logits = logits_of(forward(batch[0])[-1])[-1]
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch[1], logits))

    def model_fn(features, labels, mode):
        images, _ = features["now"]
        convolution, convolved, flat = forward(images)
        flat = tf.nn.experimental.stateless_dropout(flat, 0.2, seed=replicate.step_seed(1))
        weights, logits = logits_of(flat)
        loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        layers = kfac.graph_layer_collection()
        layers.register_conv2d(convolution, (1, 2, 2, 1), "SAME", images, convolved)
        layers.register_fully_connected(weights, flat, logits)
        layers.register_categorical_predictive_distribution(logits, name="logits")
        optimizer = replicate.TowerOptimizer(lambda: kfac.PeriodicInvCovUpdateKfacOpt(
            learning_rate=None, momentum=None, momentum_type="qmodel", damping=0.1,
            layer_collection=layers, invert_every=3, loss_fn=loss_fn, adapt_damping=True,
            damping_adaptation_interval=save_every // 2, update_damping_immediately=False))
        optimizer.wrapped.add_tower_batch(features["now"], features["last"])
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    class TellStepAndDie(v1.train.SessionRunHook):
        def before_run(self, context):
            return v1.train.SessionRunArgs(v1.train.get_global_step())

        def after_run(self, context, values):
            print("step", int(values.results), flush=True)
            if values.results == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    model_dir, last_step, save_every, kill_at = sys.argv[1], *map(int, sys.argv[2:])
    config = replicate.RunConfig(save_checkpoints_steps=save_every, progress="off")
    replicated = replicate.replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])
    estimator = replicate.Estimator(replicated, model_dir, config)
    estimator.train(input_fn, hooks=[TellStepAndDie()], max_steps=last_step)
    """
)


@pytest.fixture
def train(run_python):
    """Trains in a process of its own, which may kill itself after a step."""
    return lambda model_dir, kill_at=-1: run_python(
        PROGRAM, model_dir, LAST_STEP, SAVE_EVERY, kill_at, quick=True
    )


def saved(run, model_dir):
    """All that the last checkpoint of a run holds that has come to its end."""
    assert run.code == 0, run.err
    assert "Checkpoints cannot hold" not in run.err, "K-FAC's samples and the dropout are stateless"
    reader = tf.train.load_checkpoint(str(model_dir / f"model.ckpt-{LAST_STEP}"))
    names = [name for name in reader.get_variable_to_shape_map() if not name.endswith("_STATE")]
    return {name: reader.get_tensor(name) for name in names}


@pytest.mark.slow
def test_killed_and_resumed_run_equals_an_uninterrupted_one(train, tmp_path):
    expected = saved(train(tmp_path / "whole"), tmp_path / "whole")
    killed = train(tmp_path / "killed", KILL_AT)
    assert killed.code == -signal.SIGKILL, killed.err
    resumed = train(tmp_path / "killed")
    got = saved(resumed, tmp_path / "killed")
    first = int(resumed.out.split()[1])
    assert 0 < first <= KILL_AT + 1, "the second run must have gone on from a checkpoint"
    assert sorted(got) == sorted(expected)
    assert {"conv/w", "conv/w/KFAC", "kfac/conv/w/input/cov", "kfac/sample_step"} <= set(got)
    assert np.isfinite(expected["kfac/prev_loss"]), "it must have been saved in mid-adaptation"
    assert expected["kfac/damping"] != np.float32(0.1)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)
