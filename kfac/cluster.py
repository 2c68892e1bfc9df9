"""A K-FAC optimizer for the workers of a cluster: synchronous gradients, and curvature by role.

Every worker builds the same graph between parameter servers and itself, and runs its own part of
it. Gradients of all are aggregated by `SyncReplicasOptimizer`; the chief then makes the step.
Before it hands over its gradients a worker does what its role asks for: it adds the statistics of
its batch to sums, folds these into the averages, computes inverses. The chief stands in for those
whose inverses are missing. What is shared are variables, which are added to, and assigned as a
whole, at once. Roles are `kfac.worker_roles`'; the step is
`kfac.update.step`'s. Called by training programs.

References:
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §3.
"""

import dataclasses
import itertools
import time
import typing
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.arguments import check_number, check_period
from kfac.linalg import tensor_ops
from kfac.op_queue import OpQueue, OpQueueHook
from kfac.optimizer import KfacOptimizer
from kfac.placement import distinct
from kfac.schedules import called_once, decay_per_update, is_due
from kfac.state import ROOT, Addition, assign_all, make_variable, read
from kfac.worker_roles import WorkerRole

v1 = tf.compat.v1

_LOOK_SECS = 0.05
"""Seconds between two looks of the chief at something that it waits for."""


@typing.final
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
            steps, but compute inverses all the time. Inverses that are a period overdue, whoever
            should compute them, are computed by the chief.
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
        self._begins_with_identity = False
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
            if self._worker.computes_gradients:
                return train_op
            # Its hook would use it; TensorFlow logs an error at the end for what nothing used.
            tf.identity(self._sync.ready_for_local_init_op)
            return own_work

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
        owned = self._owned(worker)
        if not owned:
            return tf.group(*work)
        # In lock-step averages that all share only change when all workers wait.
        with v1.control_dependencies([] if worker.strategy == "shared" else work):
            if paced:
                is_time = tf.reduce_any(self._invert_steps(owned) <= read(self.counter))
                return tf.group(*work, self._inverses_if(is_time, owned))
            self._queue = OpQueue([self._inverses_if(True, [index]) for index in owned])
        return tf.group(*work)

    def _owned(self, worker: WorkerRole) -> list[int]:
        """Returns the numbers of the factors that have inverses, which a worker computes."""
        owned = worker.owned([factor.inverse_cost for factor in self.factors])
        return [index for index in owned if self.factors[index].inverse_update_vars]

    def _fold(self, due: Tensor | bool) -> Operation:
        """Folds what was added into the averages, if there is anything and it is due."""
        has_any = self._estimator.has_statistics()
        due = has_any if due is True else tf.logical_and(has_any, due)
        return self._estimator.make_cov_update_op(due)

    def _invert_steps(self, indices: Sequence[int]) -> Tensor:
        """Returns when each of some inverses is due, int64; 0 if it was never computed.

        A worker may never see a certain step, because others made it.
        """
        return tf.gather(read(self._invert_at), indices)

    def _inverses_if(self, is_time: Tensor | bool, indices: Sequence[int]) -> Operation:
        """Computes inverses if it is time and there are averages; notes when they are due again."""
        due = tf.logical_and(is_time, self._estimator.has_averages())
        step, invert_at = read(self.counter), read(self._invert_at)
        updates = self._estimator.make_inv_update_op(due, indices)
        with v1.control_dependencies([updates]):
            is_changed = tf.constant([index in indices for index in range(len(self.factors))])
            later = tf.where(tf.logical_and(is_changed, due), step + self._period() - invert_at, 0)
            return tf.group(updates, assign_all([Addition(self._invert_at, later)]))

    def _period(self) -> Tensor:
        return tf.maximum(tensor_ops.as_scalar(self._invert_every, tf.int64), 1)

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
            with v1.control_dependencies(work), v1.device(None):
                work = self._missing_inverses()
            with v1.control_dependencies(work):
                return super().apply_gradients(grads_and_vars, global_step, name)

    def _missing_inverses(self) -> list[Operation]:
        """Returns ops after which all inverses are there, and none is older than two periods.

        Without inverses a step would change nothing, and count. So the chief computes what a worker
        that is late, slow or gone has not; in lock-step that is only what the first step needs.
        """
        worker = self._worker
        if worker.strategy == "chief_worker":
            # Its own thread computes them, but others may have handed over more gradients before.
            own = self._owned(worker)
            if not own:
                return []
            return [self._wait_until(lambda: tf.reduce_all(self._invert_steps(own) > 0))]
        tasks = range(worker.num_workers)
        roles = [dataclasses.replace(worker, task_index=index) for index in tasks]
        groups = {owned for role in roles if (owned := tuple(self._owned(role)))}
        waits = []
        if worker.strategy == "dedicated_workers" and groups:
            waits.append(self._wait_until(self._estimator.has_averages))
        with v1.control_dependencies(waits):
            return [*waits, *(self._stand_in(group) for group in sorted(groups))]

    def _stand_in(self, indices: Sequence[int]) -> Operation:
        """Computes inverses of one owner if one was never computed, or is a period overdue."""
        due_at = self._invert_steps(indices)
        is_late = tf.logical_or(due_at <= 0, due_at + self._period() < read(self.counter))
        return self._inverses_if(tf.reduce_any(is_late), indices)

    def _wait_until(self, condition: Callable[[], Tensor]) -> Operation:
        """Returns an op that ends when a condition holds, or a batch was refused.

        Args:
          condition: Returns bool []; called inside a loop.
        """

        def look(_: Tensor) -> Tensor:
            pause = tf.numpy_function(_pause, [], tf.bool)
            with v1.control_dependencies([pause]):
                return tf.logical_or(condition(), self._estimator.has_refused())

        first = tf.logical_or(condition(), self._estimator.has_refused())
        return tf.while_loop(tf.logical_not, look, [first])[0].op

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


def _pause() -> Any:
    time.sleep(_LOOK_SECS)
    return np.True_


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
