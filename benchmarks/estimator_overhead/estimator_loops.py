"""Training loops of the overhead benchmark: one tiny model, trained in three ways.

Runs in its own process, on TensorFlow 2.15 or later.
"""

import itertools
import pathlib
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

BLOCK = 100
"""Steps in a timed block. Both runtimes log once in as many steps by default."""


class Clock(v1.train.SessionRunHook):
    """Hook like those of users, called around every step. Records the time of each block."""

    def __init__(self) -> None:
        self.steps = 0
        self.times: list[float] = []

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts a step."""
        del run_context, run_values
        self.count()

    def count(self) -> None:
        """Counts a step."""
        if self.steps % BLOCK == 0:
            self.times.append(time.perf_counter())
        self.steps += 1

    def per_step(self) -> list[float]:
        """Returns the seconds per step of all blocks except the first, which is the warm-up."""
        return [(end - start) / BLOCK for start, end in itertools.pairwise(self.times[1:])]


class Loops:
    """Three training loops of one runtime."""

    def __init__(self, runtime: str, steps: int):
        """Takes "replicate" or "tf.estimator", and the number of steps of a loop."""
        self._steps = steps
        if runtime == "replicate":
            import replicate  # noqa: PLC0415

            self._api: Any = replicate
        else:
            self._api = v1.estimator

    def bare(self) -> list[float]:
        """Returns the seconds per step of bare `session.run` calls."""
        clock = Clock()
        with tf.Graph().as_default(), v1.Session() as session:
            v1.train.create_global_step()
            features, labels = v1.data.make_one_shot_iterator(_input_fn()).get_next()
            spec = self._model_fn(features, labels, "train")
            session.run(v1.global_variables_initializer())
            for _ in range(self._steps):
                session.run(spec.train_op)
                clock.count()
        return clock.per_step()

    def without_hooks(self) -> list[float]:
        """Returns the seconds per step of training without hooks, from its event file."""
        folder = self._train([])
        speeds = [
            value.simple_value
            for path in pathlib.Path(folder).glob("events*")
            for event in v1.train.summary_iterator(str(path))
            for value in event.summary.value
            if value.tag == "global_step/sec"
        ]
        return [1 / speed for speed in speeds[1:]]

    def with_a_hook(self) -> list[float]:
        """Returns the seconds per step of training with a hook of the user's."""
        clock = Clock()
        self._train([clock])
        return clock.per_step()

    def _train(self, hooks: Sequence[Clock]) -> str:
        folder = tempfile.mkdtemp()
        estimator = self._api.Estimator(self._model_fn, folder)
        estimator.train(_input_fn, hooks=hooks, steps=self._steps)
        return folder

    def _model_fn(self, features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean(tf.square(features @ v1.get_variable("w", [4, 1]) - labels))
        optimizer = v1.train.GradientDescentOptimizer(0.01)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return self._api.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _input_fn() -> Any:
    return tf.data.Dataset.from_tensors((tf.ones([8, 4]), tf.ones([8, 1]))).repeat()
