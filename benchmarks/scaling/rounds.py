"""Loss and bytes of workers that meet in every step, or in rounds: MNIST's deep autoencoder.

Each worker is a process on one thread and trains on its share of the images by Adam, whose rate
falls to zero along a cosine. The loss is that of the first 10,000 training images, by steps, which
do not depend on how busy the machine is. The chief prints a line of JSON when all have trained:

    python -m replicate.launch --workers=8 --all_reduce -- \
        python -m benchmarks.scaling.rounds --data_dir=DIR --every=100 --bits=4
"""

import itertools
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from absl import app, flags

import replicate
from benchmarks.kfac_step.registered_models import autoencoder_loss, autoencoder_units
from benchmarks.time_to_loss.initial_weights import sparse
from examples import mnist

v1 = tf.compat.v1

UNITS = (1000, 500, 250, 30)
"""Units of the encoder's layers. `--width` multiplies all but those of the code."""
EVALUATED = 10_000
"""Training images that the loss is the mean of."""
_EVALUATION_BATCH = 1000
_OPTIONS = (
    "steps",
    "batch",
    "rate",
    "width",
    "seed",
    "every",
    "bits",
    "outer_rate",
    "outer_momentum",
)

FLAGS = flags.FLAGS


def encoder(pixels: int, width: float) -> tuple[int, ...]:
    """Returns the number of pixels and the units of the encoder's layers."""
    *hidden, code = UNITS
    return (pixels, *(round(width * units) for units in hidden), code)


def count_weights(encoder: Sequence[int]) -> int:
    """Returns the number of weights and biases of an autoencoder."""
    units = autoencoder_units(encoder)
    return sum((rows + 1) * columns for rows, columns in itertools.pairwise(units))


def model_fn(features: Any, labels: Any, mode: str) -> replicate.EstimatorSpec:
    """Builds the autoencoder, with sparse initial weights, and Adam."""
    del labels
    with v1.variable_scope("", initializer=sparse):
        loss = autoencoder_loss(features, encoder(features.shape[1], FLAGS.width), tf.sigmoid)
    step = v1.train.get_or_create_global_step()
    done = tf.minimum(tf.cast(step, tf.float32) / FLAGS.steps, 1.0)
    rate = FLAGS.rate * 0.5 * (1 + tf.cos(math.pi * done))
    adam = replicate.TowerOptimizer(lambda: v1.train.AdamOptimizer(rate))
    return replicate.EstimatorSpec(mode, loss=loss, train_op=adam.minimize(loss, step))


def settings() -> replicate.AllReduce:
    """Returns the settings of sums in every step, or of rounds if `--every` is given."""
    if not FLAGS.every:
        return replicate.AllReduce(check_every=0)

    def outer() -> Any:
        momentum = FLAGS.outer_momentum
        return v1.train.MomentumOptimizer(FLAGS.outer_rate, momentum, use_nesterov=True)

    return replicate.AllReduce(every=FLAGS.every, bits=FLAGS.bits, outer_optimizer=outer)


def train(folder: str) -> None:
    """Trains as one of the workers of TF_CONFIG. The chief saves in a folder."""
    config = replicate.RunConfig(
        model_dir=folder,
        tf_random_seed=FLAGS.seed,
        train_distribute=settings(),
        save_checkpoints_steps=FLAGS.save_every,
        keep_checkpoint_max=10**6,
        save_summary_steps=None,
        checkpoint_save_graph_def=False,
        progress="off",
        session_config=v1.ConfigProto(
            allow_soft_placement=True,
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=2,
        ),
    )
    rank, workers = config.global_id_in_cluster or 0, config.num_worker_replicas
    images = mnist.load(FLAGS.data_dir).train.images
    pixels = images[0].size
    own = images[rank::workers].reshape(-1, pixels).copy()
    first = images[:EVALUATED].reshape(-1, pixels).copy()
    del images

    def train_input() -> tf.data.Dataset:
        rows = tf.data.Dataset.from_tensor_slices(own).shuffle(len(own), FLAGS.seed * 1000 + rank)
        return rows.repeat().batch(FLAGS.batch, drop_remainder=True)

    def evaluation_input() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(first).batch(_EVALUATION_BATCH)

    estimator = replicate.Estimator(model_fn, config=config)
    estimator.train(train_input, max_steps=FLAGS.steps)
    if config.is_chief:
        show(estimator, evaluation_input, workers, count_weights(encoder(pixels, FLAGS.width)))


def show(estimator: replicate.Estimator, input_fn: Any, workers: int, weights: int) -> None:
    """Prints loss and bytes of a worker at each checkpoint, and how many times fewer bytes."""
    paths = tf.train.get_checkpoint_state(estimator.model_dir).all_model_checkpoint_paths
    each_step = 2 * 4 * weights * (workers - 1) / workers
    found = []
    for path in paths:
        result = estimator.evaluate(input_fn, checkpoint_path=path)
        step = int(result["global_step"])
        reader = tf.train.load_checkpoint(path)
        sent = int(reader.get_tensor("outer/bytes_sent")) if FLAGS.every else step * each_step
        found.append([step, round(float(result["loss"]), 3), sent, step * each_step / max(sent, 1)])
    options = {name: FLAGS[name].value for name in _OPTIONS}
    print(json.dumps({"workers": workers, "weights": weights, **options, "found": found}))


def main(_: Sequence[str]) -> None:
    """Trains in the folder of `--model_dir`, or in one for the time of the run."""
    with tempfile.TemporaryDirectory() as folder:
        train(FLAGS.model_dir or folder)
    sys.stdout.flush()


if __name__ == "__main__":
    flags.DEFINE_string("data_dir", "", "Folder of MNIST's IDX files; empty: digits.")
    flags.DEFINE_string("model_dir", "", "Folder of the chief; the others have one of their own.")
    flags.DEFINE_integer("steps", 2000, "Steps of each worker.", 1)
    flags.DEFINE_integer("save_every", 400, "Steps between two losses.", 1)
    flags.DEFINE_integer("batch", 64, "Images in the batch of a worker.", 1)
    flags.DEFINE_float("rate", 0.003, "Adam's first learning rate.", 0)
    flags.DEFINE_float("width", 0.5, "Of the hidden layers, 1 for 1000-500-250.", 0)
    flags.DEFINE_integer("seed", 1, "Seed of weights and batches.")
    flags.DEFINE_integer("every", 0, "Steps between two rounds, 0 to meet in each step.", 0)
    flags.DEFINE_integer("bits", 32, "Bits of a change in a round.")
    flags.DEFINE_float("outer_rate", 0.7, "Rate of the outer optimizer.", 0)
    flags.DEFINE_float("outer_momentum", 0.9, "Nesterov momentum of the outer optimizer.", 0)
    app.run(main)
