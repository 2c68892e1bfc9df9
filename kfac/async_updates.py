"""The K-FAC optimizer whose curvature is refreshed by threads, while training goes on.

It works with a session of your own and, by a hook, inside an Estimator.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §3: inverses computed asynchronously.
"""

# Repeating ops in threads is `kfac.update.background_updates`'s, the step `kfac.optimizer`'s.

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Variable
from kfac.arguments import check_period
from kfac.optimizer import KfacOptimizer
from kfac.settings import KfacSettings, documents_settings
from kfac.tracebacks import methods_show_user_frames
from kfac.update.background_updates import BackgroundUpdates

v1 = tf.compat.v1

_MAX_THREADS = 10


@methods_show_user_frames
class AsyncInvCovUpdateKfacOpt(KfacOptimizer):
    """`KfacOptimizer` whose averages and inverses are updated in the background.

    A round folds one batch into all averages, then computes all inverses. Rounds follow one
    another until they are stopped. Steps use the inverses as they are, so two equal runs differ.
    Before the first round, a step moves each layer along its scaled gradient.

    The update of the averages runs the model forward and backward by itself, and so takes a batch
    of its own from whatever the model reads: training gets those batches that the background does
    not take. Let the input repeat (`dataset.repeat()`), and count steps rather than epochs; where
    it ends, the background ends too, silently. An input that is fed cannot be used.
    """

    @documents_settings
    def __init__(  # noqa: D417
        self,
        cov_devices: Sequence[str] | None = KfacSettings.cov_devices,
        inv_devices: Sequence[str] | None = KfacSettings.inv_devices,
        num_cov_inv_update_threads: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        Args:
          num_cov_inv_update_threads: Number of inverses that are computed at the same time, ≥ 1;
            None means one thread for each factor, up to ten.
          **kwargs: The other arguments of `KfacOptimizer`.

        Raises:
          ValueError: The number of threads is not a positive int, or as in `KfacOptimizer`.
          TypeError: An argument is unknown, or as in `KfacOptimizer`.
        """
        self._check_names(kwargs)
        if num_cov_inv_update_threads is not None:
            check_period("num_cov_inv_update_threads", num_cov_inv_update_threads, "threads")
        super().__init__(cov_devices=cov_devices, inv_devices=inv_devices, **kwargs)
        self._num_threads = num_cov_inv_update_threads
        self._update_ops: tuple[Operation, list[Operation]] | None = None
        self._updates: BackgroundUpdates | None = None
        self._make_step = self._step_and_updates

    def _step_and_updates(
        self, pairs: GradsAndVars, global_step: Variable | None, name: str | None
    ) -> Operation:
        """Returns an op that makes one step; makes the ops of the background, too."""
        # Not after the gradients, nor in a branch: the background runs these ops by themselves.
        with tf.init_scope():
            _, inverses = self._estimator.make_vars_and_create_op_thunks()
            averages = self._estimator.make_cov_update_op()
            self._update_ops = averages, [update() for update in inverses]
        return self._step.make(pairs, global_step, name)

    def run_cov_inv_ops(self, sess: v1.Session, coord: v1.train.Coordinator | None = None) -> None:
        """Makes one round, then goes on in the background. Does nothing if that goes on already.

        Args:
          sess: A session of the graph, whose variables have values.
          coord: The background also ends when this coordinator says so, which then waits for it.

        Raises:
          ValueError: `apply_gradients` or `minimize` has not been called yet.
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

    def check_cov_inv_ops(self) -> None:
        """Raises what an update raised in the background, once; else does nothing."""
        if self._updates is not None:
            self._updates.check()

    def stop_cov_inv_ops(self, sess: v1.Session | None = None) -> None:
        """Ends what `run_cov_inv_ops` started, and waits for it. Does nothing if nothing runs.

        Args:
          sess: Not needed; the session in which it runs is known.

        Raises:
          Exception: What an update raised in the background, unless it was raised before.
        """
        del sess
        updates, self._updates = self._updates, None
        if updates is not None:
            updates.stop()
            updates.check()

    @contextlib.contextmanager
    def updating(self, sess: v1.Session) -> Iterator[None]:
        """Updates in the background for as long as the `with` block lasts, however it ends.

        Args:
          sess: As in `run_cov_inv_ops`.

        Raises:
          Exception: As in `run_cov_inv_ops` and `stop_cov_inv_ops`.
        """
        self.run_cov_inv_ops(sess)
        try:
            yield
        finally:
            self.stop_cov_inv_ops(sess)


class AsyncUpdateHook(v1.train.SessionRunHook):
    """Updates in the background while a monitored session, such as an Estimator's, trains.

    What fails in the background is raised by the next step. In a model function:

    ```
    optimizer = replicate.TowerOptimizer(lambda: kfac.AsyncInvCovUpdateKfacOpt(...))
    hook = kfac.AsyncUpdateHook(lambda: optimizer.wrapped)
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])
    ```

    There, each tower brings a hook; all but one of them find that there is nothing left to do.
    """

    ends_before_save = True
    """No update changes what `replicate.Estimator` saves at the end."""

    def __init__(
        self, optimizer: AsyncInvCovUpdateKfacOpt | Callable[[], AsyncInvCovUpdateKfacOpt]
    ) -> None:
        """Takes the optimizer.

        Args:
          optimizer: Or a function that returns it, called when the graph is complete.
        """
        self._find_optimizer = optimizer if callable(optimizer) else lambda: optimizer
        self._optimizer: Any = None
        self._session_and_coord: tuple[v1.Session, v1.train.Coordinator] | None = None

    def begin(self) -> None:
        """Finds the optimizer.

        Raises:
          TypeError: It is not one that updates in the background.
        """
        optimizer = self._find_optimizer()
        if not isinstance(optimizer, AsyncInvCovUpdateKfacOpt):
            raise TypeError(
                "AsyncUpdateHook starts and stops an AsyncInvCovUpdateKfacOpt, but the optimizer "
                f"is {optimizer!r}. Leave the hook out, or use that optimizer."
            )
        self._optimizer = optimizer

    def after_create_session(self, session: v1.Session, coord: v1.train.Coordinator) -> None:
        """Keeps the session for the first step: by then all hooks have made their input ready."""
        self._session_and_coord = session, coord

    def before_run(self, run_context: Any) -> None:
        """Starts the updates, at the first step; later passes on what they raised."""
        del run_context
        if self._session_and_coord is not None:
            self._optimizer.run_cov_inv_ops(*self._session_and_coord)
            self._session_and_coord = None
        self._optimizer.check_cov_inv_ops()

    def end(self, session: v1.Session) -> None:
        """Stops the updates."""
        self._optimizer.stop_cov_inv_ops(session)
