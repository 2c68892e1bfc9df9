"""Trains a recurrent network that reads images of digits row by row, on two towers, with K-FAC.

    python -m examples.rnn
    python -m examples.rnn --approx=kron_indep --model_dir=runs/rnn_indep

The network is

    h_t = tanh([row_t, h_(t-1)] W + b), from the top row to the bottom one; logits = h_T V + c

It is unrolled, so W is used once per row. K-FAC is told of all uses of W at once, in the order of
time. `--approx` selects its model of these uses: a chain of linear-Gaussian steps
("kron_series_1", "kron_series_2") or independent uses ("kron_indep").

Reference: Martens, Ba & Johnson (2018), "Kronecker-factored Curvature Approximations for Recurrent
Neural Networks", sections 3 (independent uses) and 4 (chains).
"""

from __future__ import annotations

from typing import Any

from absl import flags

import replicate
from examples import cli, mnist
from examples.lazy_module import LazyModule

# Imported when first used, so that --help and mistakes are answered at once.
tf = LazyModule("tensorflow")
v1 = LazyModule("tensorflow.compat.v1")
kfac = LazyModule("kfac")

FLAGS = flags.FLAGS
Tensor = Any
UNITS = 32
INVERT_EVERY = 10
APPROXIMATIONS = ["kron_series_2", "kron_series_1", "kron_indep"]


def logits_of(images: Tensor, approx: str, layers: kfac.LayerCollection | None = None) -> Tensor:
    """Returns logits [batch, 10] of images [batch, height, width, 1].

    `approx` is K-FAC's model of the uses of the recurrent weights. The collection, if any,
    registers the layers and the loss.
    """
    rows = tf.unstack(images[..., 0], axis=1)
    with v1.variable_scope("recurrent"):
        recurrent = _parameters(rows[0].shape[1] + UNITS, UNITS)
    with v1.variable_scope("output"):
        output = _parameters(UNITS, mnist.CLASSES)

    state = tf.zeros([tf.shape(images)[0], UNITS])
    inputs, outputs = [], []
    for row in rows:
        inputs.append(tf.concat([row, state], axis=1))
        outputs.append(_linear(inputs[-1], recurrent))
        state = tf.tanh(outputs[-1])
    logits = _linear(state, output)

    if layers is not None:
        layers.register_fully_connected_multi(recurrent, inputs, outputs, approx=approx)
        layers.register_fully_connected(output, state, logits)
        layers.register_categorical_predictive_distribution(logits, name="logits")
    return logits


def model_fn(features: Tensor, labels: Tensor, mode: str, params: Any) -> Any:
    """Builds one tower.

    Args:
      features: This tower's images, [batch, height, width, 1].
      labels: Their digits, [batch], or None in PREDICT mode.
      mode: One of replicate.ModeKeys.
      params: Dict with "approx", and "learning_rate", "momentum" and "damping" of K-FAC.

    Returns:
      A replicate.EstimatorSpec.
    """
    is_training = mode == replicate.ModeKeys.TRAIN
    layers = kfac.graph_layer_collection() if is_training else None
    logits = logits_of(features, params["approx"], layers)
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)
    if mode == replicate.ModeKeys.PREDICT:
        return replicate.EstimatorSpec(mode, predictions={"class": classes})

    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    if mode == replicate.ModeKeys.EVAL:
        accuracy = v1.metrics.accuracy(labels, classes)
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    optimizer = replicate.TowerOptimizer(lambda: make_optimizer(params))
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make_optimizer(params: Any) -> kfac.PeriodicInvCovUpdateKfacOpt:
    """Makes the optimizer; see `model_fn` for `params`."""
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=INVERT_EVERY,
        learning_rate=params["learning_rate"],
        momentum=params["momentum"],
        damping=params["damping"],
        norm_constraint=0.001,
        layer_collection=kfac.graph_layer_collection(),
    )


def _parameters(inputs: int, units: int) -> tuple[Any, Any]:
    weights = v1.get_variable(
        "weights", [inputs, units], initializer=v1.initializers.glorot_uniform()
    )
    return weights, v1.get_variable("bias", [units], initializer=v1.initializers.zeros())


def _linear(inputs: Tensor, params: tuple[Any, Any]) -> Tensor:
    weights, bias = params
    return inputs @ weights + bias


def define_flags() -> None:
    """Defines the flags of the program."""
    cli.define_run_flags(
        model_dir="runs/rnn", batch_size=128, train_steps=200, eval_every_steps=100
    )
    flags.DEFINE_enum("approx", "kron_series_2", APPROXIMATIONS, "Of the recurrent weights.")
    cli.define_positive("learning_rate", 0.03, "Of K-FAC.")
    cli.define_momentum(0.9, "Of K-FAC.")
    cli.define_positive("damping", 0.03, "Of K-FAC.")


def main() -> None:
    """Trains and evaluates, as the flags say."""
    settings = cli.read_run_flags()
    names = ("approx", "learning_rate", "momentum", "damping")
    params = {name: FLAGS[name].value for name in names}
    with cli.bad_input():
        data = mnist.load(settings.data_dir)
        cli.claim_model_dir(settings.model_dir, f"an RNN with {FLAGS.approx} on {data.size}")

    cli.import_tensorflow()
    from examples import training  # noqa: PLC0415

    title = f"RNN on {data.name}, K-FAC with {FLAGS.approx}"
    training.run(model_fn, data, settings, params, title)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
