"""Refreshing in a cluster: each worker does its share, the chief makes the step.

Every worker builds the same graph between parameter servers and itself, and runs its own part of
it. `SyncReplicasOptimizer` aggregates the gradients of all; the chief then makes the step. Before a
worker hands over its gradients it does what its role asks for: it adds the statistics of its batch
to sums, folds these into the averages, computes inverses. The chief computes the inverses that are
missing, whoever owns them. Workers share variables, which are added to, and assigned as a whole, at
once. Roles are `kfac.worker_roles`'.

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
from kfac.computed_settings import called_once
from kfac.estimator import FisherEstimator
from kfac.linalg import tensor_ops
from kfac.linalg.vectors import entries
from kfac.op_queue import OpQueue
from kfac.placement import distinct
from kfac.state import ROOT, Addition, assign_all, make_variable, read
from kfac.update.refresh import Due, RefreshPolicy, decay_per_update, is_due
from kfac.update.step import KfacStep
from kfac.worker_roles import WorkerRole

v1 = tf.compat.v1

_POLL_SECS = 0.05
"""Seconds between two looks of the chief at a condition that it waits for."""


@typing.final
@dataclasses.dataclass(eq=False)
class RefreshByWorkers(RefreshPolicy):
    """Settings of the workers' shares. The chief's step has no share of its own: see `ClusterWork`.

    Attributes:
      worker: Role of this worker.
      invert_every: Steps between two computations of an inverse, ≥ 1: an int, an int Tensor or
        Variable [], or a function that returns one of these.
      cov_update_every: Steps between two updates of the averages, ≥ 1.
    """

    from_identity = False

    worker: WorkerRole
    invert_every: Scalar
    cov_update_every: int

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
          ValueError: A number is out of its range.
        """
        check_number("invert_every", self.invert_every, ">= 1", lambda x: x >= 1)
        check_period("cov_update_every", self.cov_update_every)
        self.invert_every = called_once(self.invert_every)

    def decay_per_update(self, decay: Scalar) -> Scalar:
        """Returns the weight of the past per update of averages, given that per step."""
        return decay_per_update(decay, self.cov_update_every)

    def due(self, step: Tensor) -> Due:
        """Returns a step whose summaries another thread writes, which must not make the step."""
        del step
        return Due(summaries_wait=False)


@typing.final
class ClusterWork:
    """The work of a cluster's worker: its share of the curvature, and the step if it is the chief.

    Attributes:
      sync: Aggregates the gradients of the workers.
      inverse_queue: The updates of inverses that a dedicated worker runs one at a time; None on
        other workers, and before `train_op`.
    """

    def __init__(
        self, shares: RefreshByWorkers, step: KfacStep, estimator: FisherEstimator, name: str
    ) -> None:
        """Makes no ops or variables; `name` is that of the optimizer whose step the chief makes."""
        self._step = step
        self._estimator = estimator
        self._worker = shares.worker
        self._invert_every = shares.invert_every
        self._cov_update_every = shares.cov_update_every
        self.sync = v1.train.SyncReplicasOptimizer(
            _AggregatedStep(self._make_step, name),
            replicas_to_aggregate=self._worker.replicas_to_aggregate,
            total_num_replicas=self._worker.replicas_to_aggregate,
        )
        self.inverse_queue: OpQueue | None = None
        self._invert_at: Variable = None

    @property
    def variables(self) -> list[Variable]:
        """The steps at which inverses are due again."""
        return [] if self._invert_at is None else [self._invert_at]

    def train_op(
        self, pairs: GradsAndVars, global_step: Variable | None, name: str | None
    ) -> Operation:
        """Returns the op that this worker runs in each step.

        It hands the gradients over if they count.

        Raises:
          ValueError: There is no global step, or as in `KfacStep.make`.
        """
        if global_step is None:
            raise ValueError(
                "Cannot make K-FAC's step in a cluster: global_step=None. The workers tell by it "
                "which gradients are out of date: pass v1.train.get_or_create_global_step()."
            )
        # Drops the caller's control dependencies: the chief's thread would run them once more. Only
        # resource variables are assigned, and read, as a whole by several processes.
        scope = v1.variable_scope(
            v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False
        )
        devices = v1.device(_beside_parameters(self._estimator.layers.registered_variables))
        with v1.control_dependencies(None), scope, devices:
            self._make_variables()
            own_work = self._own_work()
            train_op = self.sync.apply_gradients(_after(own_work, pairs), global_step, name)
            if self._worker.computes_gradients:
                return train_op
            # Its hook would use it; TensorFlow logs an error at the end for what nothing used.
            tf.identity(self.sync.ready_for_local_init_op)
            return own_work

    def _make_variables(self) -> None:
        self._step.make_variables()
        if self._invert_at is None:
            with tf.init_scope():
                number = len(self._estimator.factors)
                self._invert_at = make_variable("invert_at", [number], tf.int64)

    # The work of one worker.

    def _own_work(self) -> Operation:
        """Returns an op that does this worker's share of the curvature."""
        worker = self._worker
        paced = worker.computes_gradients
        due = is_due(read(self._step.counter("counter")), self._cov_update_every) if paced else True
        # All workers make it, because all must have the variables of the sums.
        add = self._estimator.make_accumulation_op(due)
        work = [add] if worker.adds_statistics else []
        if worker.folds_statistics and worker.strategy != "shared":
            with v1.control_dependencies(work):
                work.append(self._fold(True))
        owned = self._owned(worker)
        if not owned:
            return tf.group(*work)
        # In lock-step, shared averages change only while all workers wait. But a run without a
        # batch, which finds the end of the input, must not compute inverses, either.
        losses = self._estimator.layers.loss_colocation_ops.values()
        with v1.control_dependencies([*losses] if worker.strategy == "shared" else work):
            if paced:
                is_time = tf.reduce_any(
                    self._invert_steps(owned) <= read(self._step.counter("counter"))
                )
                return tf.group(*work, self._inverses_if(is_time, owned))
            self.inverse_queue = OpQueue([self._inverses_if(True, [index]) for index in owned])
        return tf.group(*work)

    def _owned(self, worker: WorkerRole) -> list[int]:
        """Returns the numbers of the factors that have inverses, which a worker computes."""
        owned = worker.owned([factor.inverse_cost for factor in self._estimator.factors])
        return [index for index in owned if self._estimator.factors[index].inverse_update_vars]

    def _fold(self, due: Tensor | bool) -> Operation:
        """Folds what was added into the averages, if there is anything and it is due."""
        has_any = self._estimator.has_statistics()
        due = has_any if due is True else tf.logical_and(has_any, due)
        return self._estimator.make_cov_update_op(due)

    def _invert_steps(self, indices: Sequence[int]) -> Tensor:
        """Returns the steps at which some inverses are due, int64; 0 if never computed.

        A worker may never see a certain step, because others made it.
        """
        return tf.gather(read(self._invert_at), indices)

    def _inverses_if(self, is_time: Tensor | bool, indices: Sequence[int]) -> Operation:
        """Computes inverses if it is time and there are averages; notes when they are due again."""
        due = tf.logical_and(is_time, self._estimator.has_averages())
        step, invert_at = read(self._step.counter("counter")), read(self._invert_at)
        updates = self._estimator.make_inv_update_op(due, indices)
        with v1.control_dependencies([updates]):
            is_changed = tf.constant(
                [index in indices for index in range(len(self._estimator.factors))]
            )
            later = tf.where(tf.logical_and(is_changed, due), step + self._period() - invert_at, 0)
            return tf.group(updates, assign_all([Addition(self._invert_at, later)]))

    def _period(self) -> Tensor:
        return tf.maximum(tensor_ops.as_scalar(self._invert_every, tf.int64), 1)

    # The chief's step with the gradients of all.

    def _make_step(
        self, grads_and_vars: GradsAndVars, global_step: Variable, name: str | None
    ) -> Operation:
        """Makes one step, of aggregated gradients, in a thread of the chief's."""
        gradients = [entries(gradient) for gradient, _ in grads_and_vars]
        # The thread waits for gradients: whatever it reads before would be that of the last step.
        with v1.control_dependencies(gradients):
            averages = []
            if self._worker.strategy == "shared":
                due = is_due(read(self._step.counter("counter")), self._cov_update_every)
                averages.append(self._fold(due))
            with v1.control_dependencies(averages), v1.device(None):
                inverses = self._missing_inverses()
            with v1.control_dependencies(inverses):
                return self._step.make(grads_and_vars, global_step, name)

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
            return [*waits, *(self._inverses_if_late(group) for group in sorted(groups))]

    def _inverses_if_late(self, indices: Sequence[int]) -> Operation:
        """Computes inverses of one owner if one was never computed, or is a period overdue."""
        due_at = self._invert_steps(indices)
        is_late = tf.logical_or(
            due_at <= 0, due_at + self._period() < read(self._step.counter("counter"))
        )
        return self._inverses_if(tf.reduce_any(is_late), indices)

    def _wait_until(self, condition: Callable[[], Tensor]) -> Operation:
        """Returns an op that ends when a condition holds, or a batch was refused.

        The condition returns bool [], and is called inside a loop.
        """

        def look(_: Tensor) -> Tensor:
            pause = tf.numpy_function(_pause, [], tf.bool)
            with v1.control_dependencies([pause]):
                return tf.logical_or(condition(), self._estimator.has_refused())

        first = tf.logical_or(condition(), self._estimator.has_refused())
        return tf.while_loop(tf.logical_not, look, [first])[0].op


@typing.final
class _AggregatedStep(v1.train.Optimizer):
    """The optimizer that `SyncReplicasOptimizer` wraps. Passes aggregated gradients on."""

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
    time.sleep(_POLL_SECS)
    return np.True_


def _beside_parameters(parameters: Sequence[Variable]) -> Callable[[Operation], str]:
    """Returns a device function that puts K-FAC's variables where the parameters are, in turn.

    Does nothing unless the parameters are in a cluster.
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
    values = entries(gradient)
    with v1.device(values.device):
        values = tf.identity(values)
    if not isinstance(gradient, tf.IndexedSlices):
        return values
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
