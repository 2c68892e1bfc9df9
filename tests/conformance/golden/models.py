"""Models whose checkpoints are kept here, and the program that made the checkpoints.

    PYTHONPATH=/path/to/old/commit python tests/conformance/golden/models.py FOLDER [KIND ...]

trains each model of `KINDS` (or of the given kinds) for some batches, keeps the checkpoint in
FOLDER/KIND, continues from it with one call of `train`, and keeps the values that this leaves in
FOLDER/KIND/expected.npz. Run it with the code of the commit whose checkpoints are to be kept; it
uses public names only. `test_golden_checkpoints.py` makes the same second call with today's code.

To add a kind, write its model_fn, add it to `KINDS`, and run the program for it alone.
"""

import functools
import os
import pathlib
import shutil
import sys
import tempfile
import typing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1
ROWS, SIZE, CLASSES, WORDS, TIMES = 8, 6, 3, 7, 3
CPUS = 2


class Kind(typing.NamedTuple):
    """A model, and the batches that it is trained on.

    Attributes:
      model_fn: The model of the second call.
      batches: Batches before the checkpoint.
      more: Batches after it, enough for the global step to change.
      first_model_fn: The model of the first call, if it is another.
      save_every: Steps between checkpoints of the first call, which ends a step after the last of
        them: the kept checkpoint is one of a run that goes on. None: it is the last of the run.
      towers: Number of towers.
      is_exact: True if all numbers are small multiples of powers of two, which no rounding changes.
    """

    model_fn: typing.Any
    batches: int = 3
    more: int = 1
    first_model_fn: typing.Any = None
    save_every: int | None = None
    towers: int = 1
    is_exact: bool = False


def numbers(*shape, seed=0):
    """Returns normal numbers, float32, the same in each run."""
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def variable(name, *shape, seed=1):
    """Makes a weight that begins with small normal numbers."""
    initial = 0.3 * numbers(*shape, seed=seed)
    return v1.get_variable(name, initializer=lambda: tf.constant(initial), use_resource=True)


def batches(start, stop):
    """Returns the input_fn of some batches: images, words, small whole numbers and classes."""
    rows = (stop - start) * ROWS
    draw = np.random.RandomState(start)
    features = {
        "image": draw.randn(rows, SIZE, SIZE, 2).astype(np.float32),
        "words": draw.randint(0, WORDS, (rows, TIMES)).astype(np.int32),
        "whole": draw.randint(-2, 3, (rows, 2)).astype(np.float32),
    }
    labels = {
        "class": draw.randint(0, CLASSES, rows).astype(np.int32),
        "half": (draw.randint(-3, 4, (rows, 1)) / 2).astype(np.float32),
    }
    return lambda: tf.data.Dataset.from_tensor_slices((features, labels)).batch(ROWS)


def spec(mode, loss, optimizer, hooks=()):
    """Returns the EstimatorSpec of a model that an optimizer trains."""
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


# Models without K-FAC.


def exact_loss(features, labels):
    """Returns the squared error of a linear model in quarters."""
    initial = np.array([[0.5], [-0.25]], np.float32)
    weight = v1.get_variable("weight", initializer=lambda: tf.constant(initial), use_resource=True)
    bias = v1.get_variable("bias", [1], initializer=tf.zeros_initializer(), use_resource=True)
    error = tf.matmul(features["whole"], weight) + bias - labels["half"]
    return tf.reduce_mean(tf.square(error))


def exact_momentum():
    """Returns the optimizer of the models in quarters."""
    return v1.train.MomentumOptimizer(0.25, 0.5)


def momentum(features, labels, mode):
    """A plain Estimator with momentum."""
    return spec(mode, exact_loss(features, labels), exact_momentum())


def tower_accumulation(features, labels, mode):
    """Two towers whose gradients are accumulated, with a loss scale; kept between two updates."""
    scale = replicate.DynamicLossScale(initial=4.0, growth_steps=3)
    optimizer = replicate.TowerOptimizer(exact_momentum(), accumulate_steps=2, loss_scale=scale)
    return spec(mode, exact_loss(features, labels), optimizer)


def tower_skipping(features, labels, mode):
    """Two towers with batch normalization, of which steps that are not finite are skipped."""
    flat = tf.reshape(features["image"], [-1, SIZE * SIZE * 2])
    hidden = tf.matmul(flat, variable("hidden", SIZE * SIZE * 2, 4))
    gamma, beta = variable("gamma", 4), variable("beta", 4)
    mean, variance = tf.nn.moments(hidden, [0])
    moving = v1.get_variable(
        "moving", [4], initializer=tf.zeros_initializer(), trainable=False, use_resource=True
    )
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(moving, 0.25 * (moving - mean)).op)
    hidden = tf.nn.batch_normalization(hidden, mean, variance, beta, gamma, 1e-3)
    logits = tf.matmul(hidden, variable("logits", 4, CLASSES))
    loss = v1.losses.sparse_softmax_cross_entropy(labels["class"], logits)
    adam = v1.train.AdamOptimizer(0.01)
    return spec(mode, loss, replicate.TowerOptimizer(adam, skip_nonfinite=2, clip_norm=0.5))


def model_average(features, labels, mode, config):
    """A worker of its own that averages every two steps."""
    getter = replicate.ModelAverageCustomGetter.of(config)
    with v1.variable_scope("", custom_getter=getter):
        loss = exact_loss(features, labels)
    local = v1.train.GradientDescentOptimizer(0.25)
    optimizer = replicate.ModelAverageOptimizer(local, 1, True, getter, interval_steps=2)
    made = spec(mode, loss, optimizer)
    return made._replace(training_hooks=[optimizer.make_session_run_hook()])


# Models of K-FAC. Their losses have the given targets, so that nothing is drawn.


def convolution(layers, images, name, outputs, approx, seed):
    """Adds a convolution with a bias, and registers it."""
    weight = variable(f"{name}/weight", 3, 3, images.shape[-1], outputs, seed=seed)
    bias = variable(f"{name}/bias", outputs, seed=seed + 50)
    convolved = tf.nn.conv2d(images, weight, [1, 2, 2, 1], "SAME") + bias
    layers.register_conv2d((weight, bias), (1, 2, 2, 1), "SAME", images, convolved, approx=approx)
    return tf.tanh(convolved)


def dense(layers, inputs, name, outputs, approx=None, seed=10):
    """Adds a dense layer with a bias, and registers it."""
    weight = variable(f"{name}/weight", inputs.shape[-1], outputs, seed=seed)
    bias = variable(f"{name}/bias", outputs, seed=seed + 50)
    sums = tf.matmul(inputs, weight) + bias
    layers.register_fully_connected((weight, bias), inputs, sums, approx=approx)
    return sums


def class_loss(layers, logits, labels):
    """Returns the cross entropy, and registers it."""
    layers.register_softmax_cross_entropy_loss(logits, targets=labels["class"], name="loss")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels["class"], logits=logits)
    return tf.reduce_mean(losses)


USUAL = {"learning_rate": 0.1, "damping": 0.1, "momentum": 0.5, "estimation_mode": "empirical"}


def periodic(layers, **settings):
    """Returns K-FAC that updates its curvature by itself, with the usual settings and others."""
    return kfac.PeriodicInvCovUpdateKfacOpt(layer_collection=layers, **{**USUAL, **settings})


def small_convnet(layers, features, labels):
    """Returns the loss of a convolution and a dense layer."""
    hidden = convolution(layers, features["image"], "conv", 2, "kron", seed=20)
    flat = tf.reshape(hidden, [-1, (SIZE // 2) ** 2 * 2])
    return class_loss(layers, dense(layers, flat, "dense", CLASSES), labels)


def perceptron(layers, features, labels):
    """Returns the loss of two dense layers."""
    hidden = tf.tanh(dense(layers, features["whole"], "hidden", 3, seed=30))
    return class_loss(layers, dense(layers, hidden, "last", CLASSES, seed=31), labels)


def kfac_periodic(features, labels, mode):
    """K-FAC of a convolution and a dense layer, after a burn-in."""
    layers = kfac.LayerCollection()
    loss = small_convnet(layers, features, labels)
    step = {"momentum_type": "regular", "norm_constraint": 0.01}
    decay = {"use_weight_decay": True, "weight_decay_coeff": 0.01}
    every = {"invert_every": 2, "cov_update_every": 1, "num_burnin_steps": 1}
    return spec(mode, loss, periodic(layers, **every, **step, **decay))


def kfac_accumulation(features, labels, mode):
    """K-FAC that accumulates gradients of two towers; kept between two updates."""
    layers = kfac.graph_layer_collection()
    loss = small_convnet(layers, features, labels)
    optimizer = functools.partial(periodic, layers, invert_every=1)
    return spec(mode, loss, replicate.TowerOptimizer(optimizer, accumulate_steps=2))


def kfac_adaptive(features, labels, mode):
    """K-FAC whose quadratic model chooses rate and momentum, and whose damping adapts."""
    layers = kfac.LayerCollection()
    loss = perceptron(layers, features, labels)
    batch = (features["whole"], labels["class"])

    def loss_of(batch):
        read = {each.op.name: each.read_value() for each in v1.trainable_variables()}
        sums = tf.matmul(batch[0], read["hidden/weight"]) + read["hidden/bias"]
        logits = tf.matmul(tf.tanh(sums), read["last/weight"]) + read["last/bias"]
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=batch[1], logits=logits)
        )

    step = {"learning_rate": None, "momentum": None, "momentum_type": "qmodel", "damping": 0.5}
    adaptation = {"damping_adaptation_interval": 1, "damping_adaptation_decay": 0.5}
    judged = {"adapt_damping": True, "loss_fn": loss_of, "train_batch": batch, **adaptation}
    optimizer = periodic(layers, invert_every=1, estimation_mode="exact", **step, **judged)
    return spec(mode, loss, optimizer)


def kfac_async(features, labels, mode, runs_in_background=False):
    """K-FAC whose curvature is computed in the background before the checkpoint, never after it."""
    layers = kfac.LayerCollection()
    loss = perceptron(layers, features, labels)
    optimizer = kfac.AsyncInvCovUpdateKfacOpt(layer_collection=layers, **USUAL)
    hooks = [kfac.AsyncUpdateHook(optimizer)] if runs_in_background else []
    return spec(mode, loss, optimizer, hooks)


def kfac_approximations(features, labels, mode):
    """K-FAC of one layer of each other approximation."""
    layers = kfac.LayerCollection()
    hidden = features["image"]
    weight = variable("depthwise/weight", 3, 3, 2, 1, seed=40)
    mapped = tf.nn.depthwise_conv2d(hidden, weight, [1, 1, 1, 1], "SAME")
    layers.register_depthwise_conv2d(weight, hidden, mapped, (1, 1, 1, 1), "SAME")
    hidden = convolution(layers, tf.tanh(mapped), "conv_ekfac", 2, "ekfac", seed=41)
    hidden = convolution(layers, hidden, "conv_diagonal", 2, "diagonal", seed=42)
    hidden = tf.reshape(hidden, [-1, 4 * 2])
    for seed, approx in enumerate(("ekfac", "diagonal", "kron_in_diag", "kron_out_diag"), 43):
        hidden = tf.tanh(dense(layers, hidden, f"dense_{approx}", 3, approx, seed))
    scale, shift = variable("scale", 3, seed=48), variable("shift", 3, seed=49)
    shifted = hidden * scale + shift
    layers.register_scale_and_shift((scale, shift), hidden, shifted)
    offset = variable("offset", 3, seed=50)
    layers.register_generic(offset, ROWS, approx="full")
    loss = class_loss(layers, shifted + offset, labels)
    settings = {"invert_every": 2, "learning_rate": 0.05, "estimation_mode": "exact"}
    return spec(mode, loss, periodic(layers, **settings))


def kfac_spatially_uncorrelated(features, labels, mode):
    """K-FAC of a convolution whose activations are taken to be uncorrelated over space."""
    layers = kfac.LayerCollection()
    images, weight = features["image"], variable("conv/weight", 3, 3, 2, 2, seed=70)
    convolved = tf.nn.conv2d(images, weight, 1, "SAME")
    layers.register_conv2d(
        weight, (1, 1, 1, 1), "SAME", images, convolved, approx="kron_sua", reuse=False
    )
    hidden = tf.reduce_mean(tf.tanh(convolved), axis=[1, 2])
    loss = class_loss(layers, dense(layers, hidden, "last", CLASSES), labels)
    return spec(mode, loss, periodic(layers, invert_every=1))


def kfac_cluster(features, labels, mode):
    """K-FAC of a cluster of one worker, whose step is a synchronous one."""
    layers = kfac.LayerCollection()
    loss = perceptron(layers, features, labels)
    role = kfac.WorkerRole("shared", num_workers=1, task_index=0)
    optimizer = kfac.ClusterKfacOpt(role, invert_every=1, layer_collection=layers, **USUAL)
    made = spec(mode, loss, optimizer)
    return made._replace(training_hooks=[optimizer.make_session_run_hook(num_tokens=0)])


def kfac_sequences(features, labels, mode, approx="kron_series_1"):
    """K-FAC of an embedding and of a recurrent layer."""
    layers = kfac.LayerCollection()
    table = variable("embedding", WORDS, 2, seed=60)
    words = [features["words"][:, time] for time in range(TIMES)]
    found = [tf.gather(table, each) for each in words]
    layers.register_fully_connected_multi(table, words, found, dense_inputs=False)
    weight, bias = variable("cell/weight", 4, 2, seed=61), variable("cell/bias", 2, seed=62)
    state, inputs, outputs = tf.zeros_like(found[0]), [], []
    for each in found:
        inputs.append(tf.concat([each, state], axis=1))
        outputs.append(tf.matmul(inputs[-1], weight) + bias)
        state = tf.tanh(outputs[-1])
    layers.register_fully_connected_multi((weight, bias), inputs, outputs, approx=approx)
    loss = class_loss(layers, dense(layers, state, "last", CLASSES), labels)
    return spec(mode, loss, periodic(layers, invert_every=1))


KINDS = {
    "momentum": Kind(momentum, is_exact=True),
    "input_position": Kind(momentum, save_every=2, is_exact=True),
    "tower_accumulation": Kind(tower_accumulation, batches=5, towers=2, is_exact=True),
    "tower_skipping": Kind(tower_skipping, towers=2),
    "model_average": Kind(model_average, batches=4, more=2, is_exact=True),
    "kfac_periodic": Kind(kfac_periodic, batches=4),
    "kfac_accumulation": Kind(kfac_accumulation, batches=5, towers=2),
    "kfac_adaptive": Kind(kfac_adaptive),
    "kfac_async": Kind(
        kfac_async, first_model_fn=functools.partial(kfac_async, runs_in_background=True)
    ),
    "kfac_approximations": Kind(kfac_approximations),
    "kfac_spatially_uncorrelated": Kind(kfac_spatially_uncorrelated),
    "kfac_cluster": Kind(kfac_cluster),
    "kfac_series": Kind(kfac_sequences),
    "kfac_independent": Kind(functools.partial(kfac_sequences, approx="kron_indep")),
}


def train(kind, folder, start, stop, save_every=None, model_fn=None, hooks=()):
    """Trains a kind's model, or another one, in a folder on some batches.

    Only a run that saves in between saves the position of its input.
    """
    model_fn = model_fn or kind.model_fn
    if kind.towers > 1:
        devices = [f"/device:CPU:{index}" for index in range(kind.towers)]
        model_fn = replicate.replicate_model_fn(model_fn, devices=devices)
    config = replicate.RunConfig(
        model_dir=str(folder),
        save_summary_steps=None,
        save_checkpoints_steps=save_every or 1000,
        log_step_count_steps=None,
        keep_checkpoint_max=None,
        progress="off",
        save_input_position=save_every is not None,
    )
    replicate.Estimator(model_fn, config=config).train(batches(start, stop), hooks=list(hooks))


def values(folder):
    """Returns the variables' values in the newest checkpoint of a folder, by name."""
    reader = v1.train.NewCheckpointReader(tf.train.latest_checkpoint(str(folder)))
    types = reader.get_variable_to_dtype_map()
    return {name: reader.get_tensor(name) for name in types if types[name] != tf.variant}


def write(kind, folder):
    """Trains a model, and keeps its checkpoint and what follows from it in a folder."""
    with tempfile.TemporaryDirectory() as used:
        stop = kind.batches if kind.save_every is None else kind.batches + 1
        train(kind, used, 0, stop, kind.save_every, kind.first_model_fn)
        kept = tf.train.latest_checkpoint(used)
        if kind.save_every is not None:
            kept = f"{used}/model.ckpt-{kind.save_every}"
        folder.mkdir(parents=True)
        for file in sorted(pathlib.Path(used).glob(f"{pathlib.Path(kept).name}.*")):
            if file.suffix != ".meta":
                shutil.copy(file, folder)
        name = pathlib.Path(kept).name
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')
    with tempfile.TemporaryDirectory() as used:
        shutil.copytree(folder, used, dirs_exist_ok=True)
        train(kind, used, kind.batches, kind.batches + kind.more)
        assert tf.train.latest_checkpoint(used) != f"{used}/{name}", "the global step stood still"
        np.savez_compressed(folder / "expected.npz", **values(used))


def main():
    """Writes the checkpoints of the kinds that are named on the command line, or of all."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * CPUS
    tf.config.set_logical_device_configuration(cpu, logical)
    folder, *names = sys.argv[1:]
    for name in names or KINDS:
        write(KINDS[name], pathlib.Path(folder) / name)
        print(name, flush=True)


if __name__ == "__main__":
    main()
