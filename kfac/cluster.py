"""A K-FAC optimizer for the workers of a cluster: synchronous gradients, and curvature by role.

Every worker builds the same graph between parameter servers and itself, and runs its own part of
it. Gradients of all are aggregated by `SyncReplicasOptimizer`; the chief then makes the step.
Before it hands over its gradients a worker does what its role asks for: it adds the statistics of
its batch to sums, folds these into the averages, computes inverses. What is shared are variables,
which are added to, and assigned as a whole, at once. Roles are `kfac.worker_roles`'; the step is
`kfac.stepping`'s. Called by training programs.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §3.
"""

import itertools
import typing
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac import linalg
from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.arguments import check_number, check_period
from kfac.op_queue import OpQueue, OpQueueHook
from kfac.optimizer import KfacOptimizer
from kfac.placement import distinct
from kfac.schedules import called_once, decay_per_update, is_due
from kfac.state import ROOT, Addition, assign_all, make_variable, read
from kfac.worker_roles import WorkerRole

v1 = tf.compat.v1


@typing.final
class ClusterKfacOpt(KfacOptimizer):
    """`KfacOptimizer` for a worker of a cluster, which does its share of the curvature.

    Contains the `SyncReplicasOptimizer`: it must not be wrapped in another one. Variables are put
    on the devices of the parameters, which must be on parameter servers. On every worker:

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

    def __init__(
        self,
        worker: WorkerRole,
        invert_every: Scalar = 10,
        cov_update_every: int = 1,
        *,
        cov_ema_decay: Scalar = 0.95,
        **kwargs: Any,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        Args:
          worker: What this worker does.
          invert_every: Steps between two computations of an inverse, ≥ 1: an int, an int Tensor or
            Variable [], or a function that returns one of these. Dedicated workers do not count
            steps, but compute inverses all the time.
          cov_update_every: Steps between two updates of the averages, ≥ 1. Dedicated workers update
            them all the time.
          cov_ema_decay: Weight of the past per step, in [0, 1]; raised to the power
            `cov_update_every` for each update.
          **kwargs: The other arguments of `KfacOptimizer`, equal on every worker.

        Raises:
          ValueError: A number is out of its range, or as in `KfacOptimizer`.
        """
        check_number("invert_every", invert_every, ">= 1", lambda x: x >= 1)
        check_period("cov_update_every", cov_update_every)
        check_number("cov_ema_decay", cov_ema_decay, "in [0, 1]", lambda x: 0 <= x <= 1)
        super().__init__(cov_ema_decay=decay_per_update(cov_ema_decay, cov_update_every), **kwargs)
        self._worker = worker
        self._invert_every = called_once(invert_every)
        self._cov_update_every = cov_update_every
        self._sync = v1.train.SyncReplicasOptimizer(
            _Chief(self._make_step, self._name),
            replicas_to_aggregate=worker.replicas_to_aggregate,
            total_num_replicas=worker.replicas_to_aggregate,
        )
        self._invert_at: Variable = None
        self._queue: OpQueue | None = None

    @property
    def worker(self) -> WorkerRole:
        """What this worker does."""
        return self._worker

    @property
    def sync_replicas(self) -> v1.train.SyncReplicasOptimizer:
        """What aggregates the gradients of the workers."""
        return self._sync

    @property
    def inverse_queue(self) -> OpQueue | None:
        """The updates of inverses that a dedicated worker runs one at a time; None on others."""
        return self._queue

    def variables(self) -> list[Variable]:
        """Returns all state of the optimizer. Empty before it is made."""
        counters = [] if self._invert_at is None else [self._invert_at]
        return [*super().variables(), *counters]

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
            return self._sync.make_session_run_hook(chief, num_tokens)
        return OpQueueHook(lambda: self.inverse_queue)

    def apply_gradients(
        self,
        grads_and_vars: GradsAndVars,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Returns what this worker runs in each step; hands the gradients over if they count.

        Args:
          grads_and_vars: As in `KfacOptimizer.apply_gradients`.
          global_step: Incremented by the chief after the step; required.
          name: Name of the returned op.

        Raises:
          ValueError: There is no global step, or as in `KfacOptimizer.apply_gradients`.
        """
        if global_step is None:
            raise ValueError(
                "Cannot make K-FAC's step in a cluster: global_step=None. The workers tell by it "
                "which gradients are out of date: pass v1.train.get_or_create_global_step()."
            )
        pairs = self.check_gradients(grads_and_vars)
        # What a caller has everything wait for, the chief's thread would run once more. And only
        # resource variables are assigned, and read, as a whole by several processes.
        scope = v1.variable_scope(
            v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False
        )
        devices = v1.device(_beside(self.registered_variables))
        with v1.control_dependencies(None), scope, devices:
            self._make_variables()
            own_work = self._own_work()
            train_op = self._sync.apply_gradients(_after(own_work, pairs), global_step, name)
        return train_op if self._worker.computes_gradients else own_work

    def _make_variables(self) -> None:
        super()._make_variables()
        if self._invert_at is None:
            with tf.init_scope():
                self._invert_at = make_variable("invert_at", [len(self.factors)], tf.int64)

    # What a worker does by itself.

    def _own_work(self) -> Operation:
        """Returns an op that does what this worker does beside gradients and the chief's step."""
        worker = self._worker
        paced = worker.computes_gradients
        due = is_due(read(self.counter), self._cov_update_every) if paced else True
        # All workers make it, because all must have the variables of the sums.
        add = self._estimator.make_accumulation_op(due)
        work = [add] if worker.adds_statistics else []
        if worker.folds_statistics and worker.strategy != "shared":
            with v1.control_dependencies(work):
                work.append(self._fold(True))
        owned = worker.owned([factor.inverse_cost for factor in self.factors])
        owned = [index for index in owned if self.factors[index].inverse_update_vars]
        if not owned:
            return tf.group(*work)
        # In lock-step averages that all share only change when all workers wait.
        with v1.control_dependencies([] if worker.strategy == "shared" else work):
            if paced:
                return tf.group(*work, self._inverses_if_due(owned))
            usable = self._estimator.has_averages()
            updates = [self._estimator.make_inv_update_op(usable, [index]) for index in owned]
            self._queue = OpQueue(updates)
        return tf.group(*work)

    def _fold(self, due: Tensor | bool) -> Operation:
        """Folds what was added into the averages, if there is anything and it is due."""
        has_any = self._estimator.has_statistics()
        due = has_any if due is True else tf.logical_and(has_any, due)
        return self._estimator.make_cov_update_op(due)

    def _inverses_if_due(self, owned: Sequence[int]) -> Operation:
        """Computes inverses when the first of them is due; notes when it will be again.

        A worker may never see a certain step, because others made it.
        """
        step, invert_at = read(self.counter), read(self._invert_at)
        is_time = tf.reduce_any(tf.gather(invert_at, owned) <= step)
        due = tf.logical_and(is_time, self._estimator.has_averages())
        updates = self._estimator.make_inv_update_op(due, owned)
        with v1.control_dependencies([updates]):
            period = tf.maximum(linalg.as_scalar(self._invert_every, tf.int64), 1)
            is_owned = tf.constant([index in owned for index in range(len(self.factors))])
            later = tf.where(tf.logical_and(is_owned, due), step + period - invert_at, 0)
            return tf.group(updates, assign_all([Addition(self._invert_at, later)]))

    # What the chief does with the gradients of all.

    def _make_step(
        self, grads_and_vars: GradsAndVars, global_step: Variable, name: str | None
    ) -> Operation:
        """Makes one step, of aggregated gradients, in a thread of the chief's."""
        gradients = [_values(gradient) for gradient, _ in grads_and_vars]
        # The thread waits for gradients: whatever it reads before would be that of the last step.
        with v1.control_dependencies(gradients):
            work = []
            if self._worker.strategy == "shared":
                work.append(self._fold(is_due(read(self.counter), self._cov_update_every)))
            with v1.control_dependencies(work):
                return super().apply_gradients(grads_and_vars, global_step, name)

    def _summarize(self) -> None:
        # Summaries are written by another thread, which must not make the step, too.
        with v1.control_dependencies(None):
            super()._summarize()


class _Chief(v1.train.Optimizer):
    """The optimizer that is wrapped: it does what it is told with aggregated gradients."""

    def __init__(self, apply: Callable[..., Operation], name: str) -> None:
        """Takes a function with the arguments of `apply_gradients`."""
        super().__init__(use_locking=False, name=name)
        self._apply = apply

    def apply_gradients(
        self,
        grads_and_vars: GradsAndVars,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Applies gradients."""
        return self._apply(list(grads_and_vars), global_step, name)


def _beside(parameters: Sequence[Variable]) -> Callable[[Operation], str]:
    """Returns a device function that puts K-FAC's variables where the parameters are, in turn.

    Only where these are in a cluster. What surrounds it may know of towers only.
    """
    devices = distinct(v.device for v in parameters if "/job:" in v.device)
    turns = itertools.cycle(devices)

    def place(op: Operation) -> str:
        if not devices or op.type != "VarHandleOp" or not op.name.startswith(f"{ROOT}/"):
            return str(op.device)
        chosen = tf.DeviceSpec.from_string(next(turns))
        return str(tf.DeviceSpec.from_string(op.device).make_merged_spec(chosen).to_string())

    return place


def _after(work: Operation, pairs: GradsAndVars) -> list[tuple[Any, Variable]]:
    """Returns gradients that are known once some work is done."""
    with v1.control_dependencies([work]):
        return [(_identity(gradient), variable) for gradient, variable in pairs]


def _identity(gradient: Any) -> Any:
    values = _values(gradient)
    with v1.device(values.device):
        values = tf.identity(values)
    if not isinstance(gradient, tf.IndexedSlices):
        return values
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)


def _values(gradient: Any) -> Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
