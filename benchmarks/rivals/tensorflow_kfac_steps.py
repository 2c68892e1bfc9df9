"""Step times of tensorflow/kfac 0.2.4 and of momentum SGD on one model. Prints seconds as JSON.

With an optimizer's name at the end of the command line, trains with that one only and prints the
peak memory of the process: after training, and before the model is built.

Runs in an environment of `benchmarks.rivals.environments`, where `kfac` is that package and not
this project's.

    python -E -s tensorflow_kfac_steps.py convnet 256 7 10
    python -E -s tensorflow_kfac_steps.py convnet 256 1 11 kfac
"""

import json
import resource
import sys
import time
from typing import Any

import starts
import tensorflow as tf
import tensorflow_kfac_models
import turns

import kfac

v1 = tf.compat.v1


class Program:
    """A model and an optimizer in their own graph and session."""

    def __init__(self, model: str, optimizer: str, batch_size: int) -> None:
        """Builds and initializes the model. `optimizer` is "momentum" or "kfac"."""
        graph = tf.Graph()
        with graph.as_default():
            v1.set_random_seed(1)
            images = v1.get_variable(
                "images",
                [batch_size, 28, 28, 1],
                initializer=v1.random_uniform_initializer(),
                trainable=False,
            )
            layers = kfac.LayerCollection()
            loss = _loss(model, tf.identity(images), layers)
            step = v1.train.create_global_step()
            self._train = _make_optimizer(optimizer, layers).minimize(loss, global_step=step)
            initializer = v1.global_variables_initializer()
        self._session = v1.Session(graph=graph)
        self._session.run(initializer)

    def run(self, steps: int) -> float:
        """Runs some steps and returns their total seconds."""
        start = time.perf_counter()
        for _ in range(steps):
            self._session.run(self._train)
        return time.perf_counter() - start


def _loss(model: str, images: Any, layers: Any) -> Any:
    shapes = starts.SHAPES[model]
    if model == "convnet":
        labels = tf.range(images.shape[0]) % 10
        return tensorflow_kfac_models.convnet_loss(images, labels, shapes, layers)
    return tensorflow_kfac_models.autoencoder_loss(images, shapes, tf.sigmoid, tf.sigmoid, layers)


def _make_optimizer(name: str, layers: Any) -> Any:
    if name == "momentum":
        return v1.train.MomentumOptimizer(1e-3, 0.9)
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=starts.INVERT_EVERY,
        learning_rate=1e-4,
        damping=0.1,
        layer_collection=layers,
        momentum_type="regular",
    )


def time_both(model: str, batch_size: int, repeats: int, block: int) -> dict[str, list[float]]:
    """Returns the seconds per step of each block, by optimizer."""
    programs = {name: Program(model, name, batch_size) for name in ("momentum", "kfac")}
    return turns.time_steps(programs, repeats, block, 2 * starts.INVERT_EVERY)


def find_peak(model: str, batch_size: int, steps: int, optimizer: str) -> dict[str, int]:
    """Returns the peak bytes: "alone" before the model is built, and "peak"."""
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(tf.constant(0))
    alone = _bytes()
    Program(model, optimizer, batch_size).run(steps)
    return {"alone": alone, "peak": _bytes()}


def _bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(model: str, numbers: list[str], optimizers: list[str]) -> None:
    """Runs the measurement and prints it."""
    v1.disable_v2_behavior()
    batch_size, repeats, block = map(int, numbers)
    if optimizers:
        print(json.dumps(find_peak(model, batch_size, repeats * block, *optimizers)))
    else:
        print(json.dumps(time_both(model, batch_size, repeats, block)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:5], sys.argv[5:])
