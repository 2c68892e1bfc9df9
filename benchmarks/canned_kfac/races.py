"""Training runs of a canned `DNNClassifier`: curves of the held-out loss, and timed trainings.

`Curves` finds the steps that an optimizer needs: one graph, several rates and initial weights.
`time_training` times `Estimator.train`, as a program calls it, for a number of steps.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

import kfac
import replicate
from benchmarks import harness
from benchmarks.canned_kfac import problems
from benchmarks.canned_kfac.problems import FEATURE, Problem
from benchmarks.curves import Curve, record

v1 = tf.compat.v1

Rate = Callable[[], Any]
"""Returns the tuned number in the current graph: a number, or a Tensor of shape []."""

OPTIMIZERS: Mapping[str, tuple[Callable[[Rate], Any], tuple[float, ...]]] = {
    "K-FAC": (kfac.for_canned, (0.03, 0.1, 0.3)),
    "K-FAC, adaptive": (
        lambda rate: kfac.for_canned(adaptive=True, damping=rate),
        (0.3, 1.0, 3.0),
    ),
    "Adam": (lambda rate: lambda: v1.train.AdamOptimizer(rate()), (0.003, 0.01, 0.03)),
    "Adagrad": (lambda rate: lambda: v1.train.AdagradOptimizer(rate()), (0.1, 0.2, 0.4)),
    "SGD, momentum": (
        lambda rate: lambda: v1.train.MomentumOptimizer(rate(), 0.9),
        (0.03, 0.1, 0.3),
    ),
}
"""Optimizers by name, with the numbers that each may choose from: learning rates, and the first
damping of adaptive K-FAC."""


class Training(NamedTuple):
    """A timed call of `Estimator.train`.

    Attributes:
      total: Processor seconds of the call.
      start: Those up to the end of the first step.
      per_step: Those of each later step; the rest is for the last checkpoint.
      accuracy: Held-out accuracy afterwards.
    """

    total: float
    start: float
    per_step: float
    accuracy: float


def make_estimator(
    problem: Problem, optimizer: Any, model_dir: str | None = None
) -> replicate.DNNClassifier:
    """Returns the estimator of a problem."""
    column = tf.feature_column.numeric_column(FEATURE, problem.train.values.shape[1:])
    return replicate.DNNClassifier(
        problem.hidden_units,
        [column],
        model_dir,
        n_classes=problem.classes,
        optimizer=optimizer,
        config=replicate.RunConfig(tf_random_seed=1, progress="off"),
    )


class Curves:
    """The training graph of an optimizer, whose tuned number is fed."""

    def __init__(self, problem: Problem, name: str) -> None:
        """Builds the graph."""
        self._problem = problem
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(1)
            v1.train.create_global_step()
            self._rate = v1.placeholder_with_default(tf.zeros([]), [], "rate")
            estimator = make_estimator(problem, OPTIMIZERS[name][0](lambda: self._rate))
            rows = problems.input_fn(problem.train, problem.batch_size, training=True)
            batches = v1.data.make_initializable_iterator(rows)
            train = estimator.model_fn(*batches.get_next(), "train", estimator.config)
            self._initialize = [v1.global_variables_initializer(), batches.initializer]
            held_out = tf.constant(problem.held_out.values)
            with v1.variable_scope("", reuse=True):
                found = estimator.model_fn({FEATURE: held_out}, None, "infer", estimator.config)
            labels = tf.constant(problem.held_out.labels)
            chosen = tf.gather(found.predictions["probabilities"], labels, axis=1, batch_dims=1)
            loss = -tf.reduce_mean(tf.math.log(chosen))
        self._session = v1.Session(graph=graph)
        self._step = self._session.make_callable(train.train_op, [self._rate])
        self._measure = self._session.make_callable(loss)

    def run(self, rate: float) -> Curve:
        """Trains anew, from other weights than in the run before, and returns the curve."""
        self._session.run(self._initialize, {self._rate: rate})
        problem = self._problem

        def advance() -> float:
            seconds = harness.mean_seconds(lambda: self._step(rate), problem.every)
            return problem.every * seconds

        def is_over(curve: Curve) -> bool:
            return curve.losses[-1] <= problem.target

        return record(
            lambda: float(self._measure()), advance, problem.steps, problem.every, is_over
        )

    def close(self) -> None:
        """Closes the session."""
        self._session.close()


def time_training(problem: Problem, name: str, rate: float, steps: int) -> Training:
    """Times a training by an Estimator, with a tuned rate, in a new directory."""
    with tempfile.TemporaryDirectory() as folder:
        estimator = make_estimator(problem, OPTIMIZERS[name][0](lambda: rate), folder)
        clock, before = _StepTimes(), time.process_time()
        estimator.train(
            lambda: problems.input_fn(problem.train, problem.batch_size, training=True),
            steps=steps,
            hooks=[clock],
        )
        total = time.process_time() - before
        found = estimator.evaluate(
            lambda: problems.input_fn(
                problem.held_out, len(problem.held_out.labels), training=False
            )
        )
    first, *_, last = [*clock.ends, clock.ends[-1]]
    per_step = (last - first) / max(steps - 1, 1)
    return Training(total, first - before, per_step, float(found["accuracy"]))


def best(curves: Mapping[float, Sequence[Curve]], target: float) -> tuple[float, int | None]:
    """Returns the number whose runs need the fewest steps, and their median.

    The median is None if most of the runs do not reach the target; the number is then that with the
    lowest median loss.
    """

    def steps_of(rate: float) -> float:
        reached = (curve.reach(target) for curve in curves[rate])
        return statistics.median_high(math.inf if steps is None else steps for steps in reached)

    def lowest(rate: float) -> float:
        return statistics.median_high(min(curve.losses) for curve in curves[rate])

    rate = min(curves, key=lambda rate: (steps_of(rate), lowest(rate)))
    steps = steps_of(rate)
    return rate, None if steps == math.inf else int(steps)


class _StepTimes(v1.train.SessionRunHook):
    """Notes the processor seconds at the end of each step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Notes the time."""
        del run_context, run_values
        self.ends.append(time.process_time())
