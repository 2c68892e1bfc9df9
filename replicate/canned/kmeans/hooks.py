"""Session hooks of K-means: choice of the first centers, and the end of training."""

import typing
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.kmeans.initialization import Initialization
from replicate.estimator.hooks.stock import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

v1 = tf.compat.v1

POLL_SECS = 1.0
"""Seconds between two looks of a worker at the chief's choice of centers."""


@typing.final
class InitializationHook(SessionRunHook):
    """Chooses the first centers before the first step; workers wait until the chief has done so."""

    def __init__(
        self, operations: Initialization, num_clusters: int, size: int | None, is_chief: bool
    ):
        """Keeps the operations. The chief chooses; `size` is that of a point, if it is known."""
        self._operations = operations
        self._num_clusters = num_clusters
        self._size = size
        self._is_chief = is_chief

    def after_create_session(self, session: v1.Session, coord: v1.train.Coordinator) -> None:
        """Chooses centers of one batch after another, until there are enough.

        Raises:
          ValueError: The input ended before; a function chose too many; or the centers of the
            checkpoint are of another number or size.
        """
        while not coord.should_stop():
            is_done, shape = session.run([self._operations.is_done, self._operations.shape])
            if is_done:
                self._check_shape(shape.tolist())
                return
            if self._is_chief:
                self._choose(session, int(shape[0]))
            else:
                coord.wait_for_stop(POLL_SECS)

    def _choose(self, session: v1.Session, chosen: int) -> None:
        """Adds centers of the next batch. If there are enough, ends the choice."""
        if chosen > self._num_clusters:
            raise ValueError(
                f"KMeansClustering: initial_clusters gave {chosen} centers instead of "
                f"{self._num_clusters}. Its function f(inputs, k) must return at most k centers."
            )
        if chosen == self._num_clusters:
            session.run(self._operations.finish)
            return
        try:
            session.run(self._operations.choose)
        except tf.errors.OutOfRangeError as error:
            raise ValueError(
                f"KMeansClustering: the input ended when {chosen} of {self._num_clusters} centers "
                "had been chosen. Return more points from input_fn, or repeat the dataset."
            ) from error

    def _check_shape(self, shape: list[int]) -> None:
        expected = [self._num_clusters, self._size or shape[-1]]
        if shape != expected:
            raise ValueError(
                f"KMeansClustering: the checkpoint holds centers of shape {shape}, and the model "
                f"needs {expected}, one row per center. Take another model_dir, or correct "
                "num_clusters or the features."
            )


@typing.final
class RelativeChangeHook(SessionRunHook):
    """Stops training when the loss changes by less than a tolerance from one step to the next."""

    def __init__(self, loss: Tensor, tolerance: float):
        """Keeps the loss.

        Args:
          loss: Scalar, the loss of the whole batch.
          tolerance: Smallest |loss − last| / (1 + |last|) with which training goes on.
        """
        self._loss = loss
        self._tolerance = tolerance
        self._last: float | None = None

    def before_run(self, run_context: SessionRunContext) -> Any:
        """Asks for the loss."""
        del run_context
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Compares the loss with that of the step before."""
        loss, last = float(run_values.results), self._last
        self._last = loss
        if last is not None and abs(loss - last) / (1.0 + abs(last)) < self._tolerance:
            run_context.request_stop()
