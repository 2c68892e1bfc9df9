"""The K-FAC optimizer for the workers of a cluster: synchronous gradients, and curvature by role.

All-reduce is simpler where each worker can hold the variables and the curvature. This is for
servers that hold them, for steps that outlive a lost worker, and for workers that do nothing but
curvature.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §3.
"""

# The workers' part is `kfac.update.cluster_refresh`'s, roles are `kfac.worker_roles`',
# everything else is `kfac.optimizer`'s.

from typing import Any

import tensorflow as tf

from kfac._types import Scalar, Variable
from kfac.op_queue import OpQueue, OpQueueHook
from kfac.optimizer import KfacOptimizer
from kfac.settings import KfacSettings, documents_settings
from kfac.tracebacks import methods_show_user_frames
from kfac.update.cluster_refresh import ClusterWork, RefreshByWorkers
from kfac.worker_roles import WorkerRole

v1 = tf.compat.v1


@methods_show_user_frames
class ClusterKfacOpt(KfacOptimizer):
    """`KfacOptimizer` for a worker of a cluster, which does its share of the curvature.

    Contains the `SyncReplicasOptimizer`: it must not be wrapped in another one. Variables are put
    on the devices of the parameters, which must be on parameter servers; but the local step of the
    `SyncReplicasOptimizer` is where the device scope of `minimize` puts operations without state,
    so that this must be that of the worker, as under `replica_device_setter`. On every worker:

    ```
    worker = kfac.WorkerRole("shared", num_workers=2, task_index=task_index)
    optimizer = kfac.ClusterKfacOpt(worker, layer_collection=layers, ...)
    train_op = optimizer.minimize(loss, global_step)
    hooks = [optimizer.make_session_run_hook(), v1.train.StopAtStepHook(last_step=1000)]
    with v1.train.MonitoredTrainingSession(server.target, worker.is_chief, hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)
    ```
    """

    @documents_settings
    def __init__(  # noqa: D417
        self,
        worker: WorkerRole,
        invert_every: Scalar = KfacSettings.invert_every,
        cov_update_every: int = KfacSettings.cov_update_every,
        *,
        cov_ema_decay: Scalar = KfacSettings.cov_ema_decay,
        **kwargs: Any,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        Args:
          worker: Role of this worker.
          invert_every: Steps between two computations of an inverse, ≥ 1: an int, an int Tensor or
            Variable [], or a function that returns one of these. Dedicated workers do not count
            steps, but compute inverses all the time. Inverses that are a period overdue, whoever
            should compute them, are computed by the chief.
          cov_update_every: Steps between two updates of the averages, ≥ 1. Dedicated workers update
            them all the time.
          **kwargs: The other arguments of `KfacOptimizer`, equal on every worker.

        Raises:
          ValueError: A number is out of its range, or as in `KfacOptimizer`.
          TypeError: An argument is unknown, or as in `KfacOptimizer`.
        """
        self._check_names(kwargs)
        shares = RefreshByWorkers(worker, invert_every, cov_update_every)
        super().__init__(cov_ema_decay=cov_ema_decay, refresh=shares, **kwargs)
        self._worker = worker
        self._work = ClusterWork(shares, self._step, self._estimator, self._name)
        self._make_step = self._work.train_op

    def variables(self) -> list[Variable]:
        """Returns all state: also the steps at which inverses are due again."""
        return [*super().variables(), *self._work.variables]

    @property
    def worker(self) -> WorkerRole:
        """Role of this worker."""
        return self._worker

    @property
    def sync_replicas(self) -> v1.train.SyncReplicasOptimizer:
        """The optimizer that aggregates the gradients of the workers."""
        return self._work.sync

    @property
    def inverse_queue(self) -> OpQueue | None:
        """The updates of inverses that a dedicated worker runs one at a time; None on others."""
        return self._work.inverse_queue

    def make_session_run_hook(
        self, is_chief: bool | None = None, num_tokens: int = -1
    ) -> v1.train.SessionRunHook:
        """Returns the hook that the session of this worker must have.

        On a worker that computes gradients that of `SyncReplicasOptimizer`; on others one that runs
        the next inverse of their queue, if they have one, beside each step.

        Args:
          is_chief: None means what the role says.
          num_tokens: Steps that the workers may begin before all have ended the last one, in all:
            0 keeps them in lock-step, but then a worker that is restarted may leave another one
            waiting; -1 means one for each worker.
        """
        if self._worker.computes_gradients:
            chief = self._worker.is_chief if is_chief is None else is_chief
            return self._work.sync.make_session_run_hook(chief, num_tokens)
        return OpQueueHook(lambda: self.inverse_queue)
