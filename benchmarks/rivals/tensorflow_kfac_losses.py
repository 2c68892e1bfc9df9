"""Race of tensorflow/kfac 0.2.4 and Adam to a training loss. Prints the curves as JSON.

Runs in an environment of `benchmarks.rivals.environments`, where `kfac` is that package and not
this project's. `benchmarks.time_to_loss.loss_race` writes the digits and the initial weights, and
passes the settings of the race: {"problem", "activation", "seed", "batch_size", "evaluated",
"warm_up", "grid", "blocks", "options", "rounds"}.

    python -E -s tensorflow_kfac_losses.py digits.npz '{"problem": "convnet", ...}'
"""

import contextlib
import functools
import sys
import time
from collections.abc import Mapping
from typing import Any

import starts
import tensorflow as tf
import tensorflow_kfac_models
import turns

import kfac

v1 = tf.compat.v1

_ADAPTIVE: dict[str, Any] = {
    "momentum_type": "qmodel",
    "learning_rate": None,
    "momentum": None,
    "adapt_damping": True,
    "damping_adaptation_interval": 5,
    "invert_every": 5,
    # Best on the autoencoder of (1, 0.95), (5, 0.95), (5, 0.9) and (5, 0.77).
    "cov_update_every": 5,
    "cov_ema_decay": 0.9,
}


class Program:
    """A problem and an optimizer in their own graph and session."""

    def __init__(
        self, digits: starts.Digits, race: Mapping[str, Any], optimizer: str, setting: float
    ) -> None:
        """Builds the graph, runs some warm-up steps, and starts again."""
        graph = tf.Graph()
        with graph.as_default():
            v1.set_random_seed(race["seed"])
            data = _variables(digits)
            batch = _draw(data, race["batch_size"], race["seed"])
            layers = kfac.LayerCollection()
            loss_of = functools.partial(_loss, race, digits.shapes)
            loss = loss_of(batch, layers)

            def loss_again(examples: Any) -> Any:
                with v1.variable_scope(v1.get_variable_scope(), reuse=True):
                    return loss_of(examples)

            whole_loss = loss_again(tuple(part[: race["evaluated"]] for part in data))
            weights = v1.trainable_variables()
            adaptation = {
                **race["options"]["kfac"],
                "batch_size": race["batch_size"],
                "loss": loss,
                "loss_fn": loss_again,
                "train_batch": batch,
            }
            make = _make_optimizer(optimizer, setting, layers, adaptation)
            train = make.minimize(loss, global_step=v1.train.create_global_step())
            initializer = v1.global_variables_initializer()
            values = [v1.placeholder(tf.float32, weight.shape) for weight in weights]
            load = [v1.assign(*pair) for pair in zip(weights, values, strict=True)]
        self._session = v1.Session(graph=graph)
        self._step = self._session.make_callable(train)
        self._whole_loss = self._session.make_callable(whole_loss)
        for steps in (race["warm_up"], 0):
            self._session.run(initializer)
            self._session.run(load, dict(zip(values, digits.start, strict=True)))
            self.run(steps)
            self.loss()

    def run(self, steps: int) -> float:
        """Runs some steps and returns their total seconds.

        A step with logits that are not finite fails when it samples targets. It changes nothing.
        """
        start = time.perf_counter()
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            for _ in range(steps):
                self._step()
        return time.perf_counter() - start

    def loss(self) -> float:
        """Returns the mean loss over the training data that the race evaluates."""
        return float(self._whole_loss())


def _variables(digits: starts.Digits) -> tuple[Any, Any]:
    """Returns images and labels from variables, which prevents constant folding."""
    images, labels = (
        tf.identity(v1.get_variable(name, initializer=values, trainable=False))
        for name, values in (("images", digits.images), ("labels", digits.labels))
    )
    return images, labels


def _draw(data: tuple[Any, Any], batch_size: int, seed: int) -> tuple[Any, Any]:
    """Samples a new batch, with replacement, in each run."""
    images, labels = data
    rows = tf.random.uniform([batch_size], maxval=images.shape[0], dtype=tf.int32, seed=seed)
    return tf.gather(images, rows), tf.gather(labels, rows)


def _loss(
    race: Mapping[str, Any],
    shapes: list[tuple[int, ...]],
    batch: tuple[Any, Any],
    layers: Any | None = None,
) -> Any:
    images, labels = batch
    if race["problem"] == "convnet":
        return tensorflow_kfac_models.convnet_loss(images, labels, shapes, layers)
    return tensorflow_kfac_models.autoencoder_loss(
        images, shapes, getattr(tf, race["activation"]), tf.identity, layers
    )


def _make_optimizer(name: str, setting: float, layers: Any, adaptation: dict[str, Any]) -> Any:
    if name == "adam":
        return v1.train.AdamOptimizer(setting)
    return kfac.PeriodicInvCovUpdateKfacOpt(
        layer_collection=layers, damping=setting, **_ADAPTIVE, **adaptation
    )


if __name__ == "__main__":
    v1.disable_v2_behavior()
    v1.enable_resource_variables()
    turns.print_race(Program, sys.argv[1:])
