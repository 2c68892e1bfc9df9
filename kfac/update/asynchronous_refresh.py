"""Asynchronous refreshing: threads update the curvature while training goes on.

Builds the update ops, and starts and stops the threads that run them. Repeating ops in threads is
`kfac.scheduling.background`'s.
"""

import typing

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Variable
from kfac.estimator import FisherEstimator
from kfac.scheduling.background import BackgroundUpdates
from kfac.update.step import KfacStep

v1 = tf.compat.v1

_MAX_THREADS = 10


@typing.final
class AsynchronousRefresh:
    """Updates averages and inverses in the background; steps use the inverses as they are."""

    def __init__(
        self, step: KfacStep, estimator: FisherEstimator, name: str, num_threads: int | None
    ) -> None:
        """Makes no ops or variables.

        Args:
          step: The step.
          estimator: The curvature.
          name: Name for messages.
          num_threads: Number of inverses that are computed at the same time, ≥ 1; None means one
            thread for each factor, up to ten.
        """
        self._step = step
        self._estimator = estimator
        self._name = name
        self._num_threads = num_threads
        self._update_ops: tuple[Operation, list[Operation]] | None = None
        self._updates: BackgroundUpdates | None = None

    def train_op(
        self, pairs: GradsAndVars, global_step: Variable | None, name: str | None
    ) -> Operation:
        """Returns an op that makes one step; makes the ops of the background, too."""
        # Not after the gradients, nor in a branch: the background runs these ops by themselves.
        with tf.init_scope():
            _, inverses = self._estimator.make_vars_and_create_op_thunks()
            averages = self._estimator.make_cov_update_op()
            self._update_ops = averages, [update() for update in inverses]
        return self._step.make(pairs, global_step, name)

    def start(self, sess: v1.Session, coord: v1.train.Coordinator | None = None) -> None:
        """Makes one round, then goes on in the background. Does nothing if that goes on already.

        Args:
          sess: A session of the graph, whose variables have values.
          coord: The background also ends when this coordinator says so, which then waits for it.

        Raises:
          ValueError: There are no update ops yet.
          Exception: Whatever an update raised in the first round.
        """
        if self._update_ops is None:
            raise ValueError(
                f"{self._name} has no updates to run in the background: call minimize or "
                "apply_gradients before run_cov_inv_ops."
            )
        if self._updates is not None:
            if self._updates.session is sess:
                return
            self._updates.stop()
        averages, inverses = self._update_ops
        num_threads = self._num_threads or max(1, min(len(inverses), _MAX_THREADS))
        self._updates = None
        updates = BackgroundUpdates(sess, averages, inverses, num_threads, coord)
        updates.start()
        self._updates = updates

    def check(self) -> None:
        """Raises what an update raised in the background, once; else does nothing."""
        if self._updates is not None:
            self._updates.check()

    def stop(self) -> None:
        """Ends what `start` started, and waits for it. Does nothing if nothing runs.

        Raises:
          Exception: What an update raised in the background, unless it was raised before.
        """
        updates, self._updates = self._updates, None
        if updates is not None:
            updates.stop()
            updates.check()
