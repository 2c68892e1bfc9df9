"""Loss and bytes of workers that meet in every step, or in rounds: a deep autoencoder.

Each worker is a process on one thread and trains on its share of the images; the batch of all
together is the same for each number of workers. Adam or K-FAC is inside, whose rate falls to zero
along a cosine. The loss is that of the first 10,000 training images, by steps, which do not depend
on how busy the machine is. The same processes train all cases, the options of lists, one after the
other. The chief adds a line of JSON for each to `--out`; those that are there are left out:

    python -m replicate.launch --workers=8 --all_reduce -- python -m benchmarks.scaling.rounds \
        --inner=adam,kfac --every=0,5,20,100 --outer=1/0,0.7/0.9 --seeds=1,2,3 --out=FILE.jsonl
"""

import functools
import itertools
import json
import math
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import app, flags

import kfac
import replicate
from benchmarks.kfac_step.registered_models import autoencoder_loss, autoencoder_units
from benchmarks.time_to_loss.initial_weights import CONNECTIONS
from examples import mnist

v1 = tf.compat.v1

UNITS = {784: (1000, 500, 250, 30), 64: (32, 16, 6)}
"""Units of the encoder's layers by pixels. `--width` multiplies all but those of the code."""
EVALUATED = 10_000
"""Training images that the loss is the mean of."""
_INVERT_EVERY = 5
_OPTIONS = ("steps", "batch", "rate", "kfac_rate", "width", "start")

FLAGS = flags.FLAGS


class Case(NamedTuple):
    """One training.

    Attributes:
      workers: Number of workers.
      inner: Optimizer of the steps, "adam" or "kfac".
      every: Steps between two rounds, 0 to meet in each step.
      outer: Rate and Nesterov momentum of the outer optimizer, "1/0" for plain averaging.
      factors: "mean" if rounds average K-FAC's factors, or "local".
      bits: Bits of a change in a round.
      seed: Seed of weights and batches.
    """

    workers: int
    inner: str
    every: int = 0
    outer: str = ""
    factors: str = ""
    bits: int = 32
    seed: int = 1


def cases(workers: int) -> Iterator[Case]:
    """Yields what the options list, seed by seed. Further `--factors` go with the first outer."""
    for seed, inner, every in itertools.product(FLAGS.seeds, FLAGS.inner, FLAGS.every):
        if every == "0":
            yield Case(workers, inner, seed=int(seed))
            continue
        for outer, factors in itertools.product(FLAGS.outer, FLAGS.factors):
            if factors == FLAGS.factors[0] or (inner == "kfac" and outer == FLAGS.outer[0]):
                yield Case(workers, inner, int(every), outer, factors, FLAGS.bits, int(seed))


def encoder(pixels: int, width: float) -> tuple[int, ...]:
    """Returns the number of pixels and the units of the encoder's layers."""
    *hidden, code = UNITS[pixels]
    return (pixels, *(round(width * units) for units in hidden), code)


def each_step_bytes(units: Sequence[int], case: Case) -> float:
    """Returns the bytes that a worker sends for a step if all meet in each.

    With K-FAC there are statistics too, in triangles, and in every fifth step the inverses, of
    which each worker computes a part.
    """
    sizes = [(rows + 1, columns) for rows, columns in itertools.pairwise(units)]
    numbers = sum(rows * columns for rows, columns in sizes)
    if case.inner == "kfac":
        squares = [(rows**2 + columns**2, rows + columns) for rows, columns in sizes]
        numbers += sum((square + side) / 2 for square, side in squares)
        numbers += sum(columns + 2 for _, columns in sizes)  # sums of gradients, and weights
        numbers += sum(square for square, _ in squares) / _INVERT_EVERY
    return 2 * 4 * numbers * (case.workers - 1) / case.workers


def optimizer(case: Case, layers: kfac.LayerCollection | None) -> v1.train.Optimizer:
    """Returns the inner optimizer."""
    step = v1.train.get_or_create_global_step()
    done = tf.minimum(tf.cast(step, tf.float32) / FLAGS.steps, 1.0)
    falling = 0.5 * (1 + tf.cos(math.pi * done))
    if layers is None:
        return v1.train.AdamOptimizer(FLAGS.rate * falling)
    return kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=FLAGS.kfac_rate * falling,
        damping=0.2,
        momentum=0.9,
        norm_constraint=None if FLAGS.data_dir else 0.01,
        layer_collection=layers,
        invert_every=_INVERT_EVERY,
        cov_update_every=1,
    )


def initial_weights(seed: int, shape: Sequence[int], dtype: Any = None, **_: Any) -> np.ndarray:
    """Returns normal weights [inputs, units], of MNIST sparse ones; the same in all cases."""
    random = np.random.default_rng([seed, *shape])
    values = random.standard_normal(shape).astype(dtype.as_numpy_dtype)
    if max(shape) <= 64:  # digits
        return values / shape[0] ** 0.5
    return values * (random.random(shape).argsort(axis=0).argsort(axis=0) < CONNECTIONS)


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> replicate.EstimatorSpec:
    """Builds the autoencoder and its training: of MNIST with sigmoids, of digits with tanh."""
    del labels
    case, pixels = params["case"], features.shape[1]
    layers = kfac.graph_layer_collection() if case.inner == "kfac" else None
    with v1.variable_scope("", initializer=functools.partial(initial_weights, case.seed)):
        activation = tf.sigmoid if pixels == 784 else tf.tanh
        loss = autoencoder_loss(features, encoder(pixels, FLAGS.width), activation, layers=layers)
    towers = replicate.TowerOptimizer(lambda: optimizer(case, layers))
    train_op = towers.minimize(loss, v1.train.get_or_create_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def settings(case: Case) -> replicate.AllReduce:
    """Returns the settings of sums in every step, or of rounds."""
    if not case.every:
        return replicate.AllReduce(check_every=0)
    rate, momentum = map(float, case.outer.split("/"))
    return replicate.AllReduce(
        every=case.every,
        bits=case.bits,
        outer_optimizer=lambda: v1.train.MomentumOptimizer(rate, momentum, use_nesterov=True),
        averages_curvature=case.factors == "mean",
    )


class Losses(v1.train.SessionRunHook):
    """Loss of a worker's weights after the rounds of some steps, and the bytes that it has sent.

    Attributes:
      found: Step, loss and bytes of each measurement.
    """

    def __init__(self, images: np.ndarray, case: Case):
        """Takes the images, [number, pixels], that the loss is the mean of."""
        self._images, self._case, self._step = images, case, 0
        self.found: list[tuple[int, float, int]] = []

    def begin(self) -> None:
        """Finds the weights and the count of bytes in the graph."""
        self._weights = v1.trainable_variables()
        known = {each.op.name: each for each in v1.global_variables() + v1.local_variables()}
        self._sent = known.get("outer/bytes_sent", tf.constant(0))

    def before_run(self, run_context: Any) -> None:
        """Measures if it is time, now that the round of the last step is over."""
        if self._step % FLAGS.show_every == 0:
            self.end(run_context.session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts the step."""
        del run_context, run_values
        self._step += 1

    def end(self, session: v1.Session) -> None:
        """Measures."""
        values, sent = session.run([self._weights, self._sent])
        if not self._case.every:
            units = autoencoder_units(encoder(self._images.shape[1], FLAGS.width))
            sent = self._step * each_step_bytes(units, self._case)
        self.found.append((self._step, round(loss_of(values, self._images), 3), round(sent)))


def loss_of(values: Sequence[np.ndarray], images: np.ndarray) -> float:
    """Returns the loss of `model_fn`, given the weight and the bias of each layer in turn."""
    outputs = images
    for index in range(0, len(values), 2):
        if index and index != len(values) // 2:  # The code is linear.
            is_mnist = images.shape[1] == 784
            outputs = 0.5 + 0.5 * np.tanh(outputs / 2) if is_mnist else np.tanh(outputs)
        outputs = outputs @ values[index] + values[index + 1]
    return float((np.logaddexp(0, outputs) - images * outputs).sum(axis=1).mean())


def train(case: Case, rank: int, images: np.ndarray, folder: str) -> list[tuple[int, float, int]]:
    """Trains as one of the workers of TF_CONFIG on its share of images, [number, pixels]."""
    session_config = v1.ConfigProto(
        allow_soft_placement=True, intra_op_parallelism_threads=1, inter_op_parallelism_threads=2
    )
    session_config.graph_options.rewrite_options.disable_meta_optimizer = True
    config = replicate.RunConfig(
        model_dir=folder,
        tf_random_seed=case.seed,
        train_distribute=settings(case),
        save_checkpoints_steps=None,
        save_summary_steps=None,
        log_step_count_steps=None,
        progress="off",
        session_config=session_config,
    )
    own = images[rank :: case.workers].copy()

    def train_input() -> tf.data.Dataset:
        rows = tf.data.Dataset.from_tensor_slices(own).shuffle(len(own), case.seed * 1000 + rank)
        return rows.repeat().batch(FLAGS.batch // case.workers, drop_remainder=True)

    start = FLAGS.start or None
    estimator = replicate.Estimator(model_fn, None, config, {"case": case}, warm_start_from=start)
    losses = Losses(images[:EVALUATED], case)
    estimator.train(train_input, max_steps=FLAGS.steps, hooks=[losses] if rank == 0 else [])
    return losses.found


def main(_: Sequence[str]) -> None:
    """Trains what is not in the file of `--out` yet. The chief writes, all read it before."""
    config = replicate.RunConfig()
    rank, workers = config.global_id_in_cluster or 0, config.num_worker_replicas
    known = []
    if FLAGS.out and pathlib.Path(FLAGS.out).exists():
        for line in pathlib.Path(FLAGS.out).read_text(encoding="utf-8").splitlines():
            known.append({**json.loads(line), "found": None})
    images = mnist.load(FLAGS.data_dir).train.images
    images = images.reshape(len(images), -1)
    common = {"images": len(images), **{name: FLAGS[name].value for name in _OPTIONS}}
    for case in cases(workers):
        record = {**case._asdict(), **common, "found": None}
        if record in known:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = train(case, rank, images, folder)
        line = json.dumps({**record, "found": found})
        if rank == 0 and FLAGS.out:
            with pathlib.Path(FLAGS.out).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        elif rank == 0:
            print(line, flush=True)


if __name__ == "__main__":
    flags.DEFINE_string("data_dir", "", "Folder of MNIST's IDX files; empty: digits.")
    flags.DEFINE_string("out", "", "File to add the results to; empty: standard output.")
    flags.DEFINE_string("start", "", "Checkpoint with the first weights; empty: new ones.")
    flags.DEFINE_integer("steps", 300, "Steps of each worker.", 1)
    flags.DEFINE_integer("show_every", 100, "Steps between two losses.", 1)
    flags.DEFINE_integer("batch", 128, "Images in the batches of all workers.", 1)
    flags.DEFINE_float("rate", 0.003, "Adam's first learning rate.", 0)
    flags.DEFINE_float("kfac_rate", 0.02, "K-FAC's first learning rate.", 0)
    flags.DEFINE_float("width", 1.0, "Of the hidden layers, 1 for 1000-500-250 of MNIST.", 0)
    flags.DEFINE_list("inner", ["adam"], "Optimizers of the steps: adam, kfac.")
    flags.DEFINE_list("every", ["0"], "Steps between two rounds, 0 to meet in each step.")
    flags.DEFINE_list("outer", ["0.7/0.9"], "Rates and Nesterov momentums in rounds.")
    flags.DEFINE_list("factors", ["mean"], "K-FAC's factors in rounds: mean, local.")
    flags.DEFINE_integer("bits", 32, "Bits of a change in a round.")
    flags.DEFINE_list("seeds", ["1"], "Seeds of weights and batches.")
    app.run(main)
