"""Trains a multi-layer perceptron on images of digits with K-FAC, as a model_fn or without one.

    python -m examples.mlp                     a replicated model_fn and an Estimator, two towers
    python -m examples.mlp --mode=plain        a plain graph: K-FAC's updates chained by hand

The network is

    image -> linear 64, tanh -> linear 32, tanh -> linear 10

Both modes spread K-FAC's inverses over the steps, so that no step computes all of them.
`model_fn` does so with an argument of the optimizer. `train_in_plain_graph` does so by hand and
uses nothing of `replicate`.

Reference: Martens & Grosse (2015), "Optimizing Neural Networks with Kronecker-factored Approximate
Curvature", arXiv 1503.05671.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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
UNITS = (64, 32, mnist.CLASSES)
INVERT_EVERY = 5
"""Steps between two computations of the same inverse, where they are spread by K-FAC itself."""


class Layer(NamedTuple):
    """Tensors of a layer that K-FAC needs: parameters, inputs and outputs."""

    params: tuple[Any, Any]
    inputs: Tensor
    outputs: Tensor  # before the non-linearity


def linear_layer(name: str, inputs: Tensor, units: int) -> Layer:
    """Multiplies by a matrix and adds a bias: [batch, features] -> [batch, units]."""
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", [inputs.shape[-1], units])
        bias = v1.get_variable("bias", [units], initializer=v1.initializers.zeros())
    return Layer((weights, bias), inputs, inputs @ weights + bias)


def fc_layer(
    layer_id: int, inputs: Tensor, output_size: int
) -> tuple[Tensor, Tensor, tuple[Any, Any]]:
    """Builds a dense layer and its tanh, with the arguments of tf.contrib.kfac's `mlp.fc_layer`.

    Returns (before the tanh, after it, (weights, bias)) for inputs [batch, features].
    """
    layer = linear_layer(f"fc_{layer_id}", inputs, output_size)
    return layer.outputs, tf.tanh(layer.outputs), layer.params


def build_model(images: Tensor) -> Sequence[Layer]:
    """Stacks the layers on images [batch, ...]; logits [batch, 10] leave the last one."""
    layers: list[Layer] = []
    activations = tf.reshape(images, [-1, images.shape[1:].num_elements()])
    for index, units in enumerate(UNITS):
        layers.append(linear_layer(f"linear{index + 1}", activations, units))
        activations = tf.tanh(layers[-1].outputs)
    return layers


def predict(images: Tensor) -> Tensor:
    """Returns the digits [batch] that the model sees in images."""
    return tf.argmax(build_model(images)[-1].outputs, axis=1, output_type=tf.int32)


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean cross entropy, shape [], of logits [batch, 10] and digits [batch]."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def register(layers: kfac.LayerCollection, model: Sequence[Layer]) -> None:
    """Registers the layers and the distribution of the logits with K-FAC."""
    for layer in model:
        layers.register_fully_connected(layer.params, layer.inputs, layer.outputs)
    layers.register_categorical_predictive_distribution(model[-1].outputs, name="logits")


def model_fn(features: Tensor, labels: Tensor, mode: str, params: Any) -> Any:
    """Builds one tower.

    Args:
      features: This tower's images, [batch, height, width, 1].
      labels: Their digits, [batch], or None in PREDICT mode.
      mode: One of replicate.ModeKeys.
      params: Dict with "learning_rate", "momentum" and "damping" of K-FAC.

    Returns:
      A replicate.EstimatorSpec.
    """
    model = build_model(features)
    logits = model[-1].outputs
    classes = tf.argmax(logits, axis=1, output_type=tf.int32)
    if mode == replicate.ModeKeys.PREDICT:
        return replicate.EstimatorSpec(mode, predictions={"class": classes})

    loss = mean_loss(logits, labels)
    metrics = {"accuracy": v1.metrics.accuracy(labels, classes)}
    if mode == replicate.ModeKeys.EVAL:
        return replicate.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    register(kfac.graph_layer_collection(), model)
    optimizer = replicate.TowerOptimizer(
        lambda: kfac.PeriodicInvCovUpdateKfacOpt(
            invert_every=INVERT_EVERY, spread_inverses=True, **_kfac_arguments(params)
        )
    )
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train_in_plain_graph(data: mnist.Dataset, settings: cli.RunSettings, params: Any) -> None:
    """Trains on one device, without any model_fn, and prints how it went."""
    from examples import kfac_by_hand, plain_training  # noqa: PLC0415

    with tf.Graph().as_default():
        v1.set_random_seed(settings.seed)
        images, labels = mnist.tensors(*data.train, settings.batch_size, seed=settings.seed)
        model = build_model(images)
        loss = mean_loss(model[-1].outputs, labels)
        register(kfac.graph_layer_collection(), model)
        optimizer = kfac.KfacOptimizer(**_kfac_arguments(params))
        step = v1.train.get_or_create_global_step()
        train_op = kfac_by_hand.minimize_in_turn(optimizer, loss, step)
        seen = tf.argmax(model[-1].outputs, axis=1, output_type=tf.int32)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(seen, labels), tf.float32))
        plain_training.run(train_op, loss, accuracy, predict, data, settings, params)


def _kfac_arguments(params: Any) -> dict[str, Any]:
    return {**params, "norm_constraint": 0.001, "layer_collection": kfac.graph_layer_collection()}


def define_flags() -> None:
    """Defines the flags of the program."""
    cli.define_run_flags(model_dir="runs/mlp", batch_size=128, train_steps=200, eval_every_steps=50)
    flags.DEFINE_enum("mode", "estimator", ["estimator", "plain"], "How it is trained.")
    cli.define_positive("learning_rate", 0.03, "Of K-FAC.")
    cli.define_momentum(0.9, "Of K-FAC.")
    cli.define_positive("damping", 0.03, "Of K-FAC.")


def main() -> None:
    """Trains and evaluates, as the flags say."""
    settings = cli.read_run_flags()
    params = {name: FLAGS[name].value for name in ("learning_rate", "momentum", "damping")}
    with cli.bad_input():
        cli.refuse_unused_flags(
            cli.flags_without_effect(
                ["progress", "profile_steps", "dry_run", "steal"],
                needs="--mode=estimator",
                met=FLAGS.mode == "estimator",
            )
        )
        data = mnist.load(settings.data_dir)
        cli.claim_model_dir(settings.model_dir, f"an MLP in mode {FLAGS.mode} on {data.size}")

    cli.import_tensorflow()
    from examples import training  # noqa: PLC0415

    if FLAGS.mode == "plain":
        with cli.bad_input():
            plan = training.plan_one_device(settings)
        training.show_plan(plan, data, settings.batch_size, params)
        train_in_plain_graph(data, settings, params)
    else:
        training.run(model_fn, data, settings, params, f"MLP on {data.name}, K-FAC")


if __name__ == "__main__":
    define_flags()
    cli.run(main)
