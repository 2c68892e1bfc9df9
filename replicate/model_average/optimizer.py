"""ModelAverageOptimizer trains local weights and averages them over the workers at intervals.

It wraps the optimizer that makes the local steps, and decides which steps end with a round of
averaging (`rounds.py`). The slots of the local optimizer are local variables of the worker: they go
neither to a parameter server nor into a checkpoint.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Gradient, Operation, Tensor, Variable
from replicate.graph_ops.conditional import run_if
from replicate.model_average.getter import AveragedVariable, ModelAverageCustomGetter
from replicate.model_average.hook import Membership, ModelAverageHook
from replicate.model_average.rounds import Rounds, local_counter
from replicate.outer_step import OuterOptimizer, OuterStep, check_outer_optimizer

v1 = tf.compat.v1


class ModelAverageOptimizer(v1.train.Optimizer):
    """Wraps an optimizer: workers train independently and average their weights at intervals.

    ```
    getter = ModelAverageCustomGetter("/job:worker/task:1")
    with tf.variable_scope("", custom_getter=getter):
        loss = model(features, labels)
    optimizer = ModelAverageOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), 2, False, getter)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    hook = optimizer.make_session_run_hook()
    ```

    The global step counts averagings, not local steps.
    """

    def __init__(
        self,
        opt: v1.train.Optimizer,
        num_worker: int,
        is_chief: bool,
        ma_custom_getter: ModelAverageCustomGetter,
        interval_steps: int = 100,
        use_locking: bool = True,
        name: str = "ModelAverageOptimizer",
        *,
        patience_secs: float | None = 300,
        outer_optimizer: OuterOptimizer | None = None,
    ):
        """Keeps the settings.

        Args:
          opt: Makes the local steps.
          num_worker: Number of workers that train, including the chief, ≥ 1.
          is_chief: True for the one worker that takes the means.
          ma_custom_getter: The getter that made the model's variables.
          interval_steps: Local steps from one averaging to the next, ≥ 1, equal in all workers.
          use_locking: Argument of the base class. Averages are always assigned under a lock.
          name: Name of the operations. Optimizers of one graph that share a name are numbered.
          patience_secs: Seconds that the chief waits for workers in a round, > 0. Then rounds go on
            without the missing workers until they come back. None means no limit. Needs the hook.
          outer_optimizer: A tf.compat.v1.train.Optimizer, or a function that makes one. In a round
            it gets the averages minus the mean of the workers' weights, as a gradient, and all go
            on from its result (DiLoCo, arXiv 2311.08105). Its slots are beside the averages, and in
            checkpoints. None replaces the averages by the mean, as gradient descent of rate 1 does.

        Raises:
          TypeError: An argument has the wrong type.
          ValueError: A number is out of range.
        """
        super().__init__(use_locking, name)
        _check_kind("opt", opt, v1.train.Optimizer)
        _check_kind("ma_custom_getter", ma_custom_getter, ModelAverageCustomGetter)
        _check_kind("is_chief", is_chief, bool)
        _check_count("num_worker", num_worker)
        _check_count("interval_steps", interval_steps)
        if outer_optimizer is not None:
            check_outer_optimizer("ModelAverageOptimizer", outer_optimizer)
        if patience_secs is not None and not 0 < patience_secs < math.inf:
            raise ValueError(
                f"ModelAverageOptimizer: patience_secs must be a number of seconds > 0, got "
                f"{patience_secs!r}. Pass None to wait for lost workers without a limit."
            )
        self._opt = opt
        self._num_worker = num_worker
        self._is_chief = is_chief
        self._getter = ma_custom_getter
        self._interval_steps = interval_steps
        self._patience_secs = patience_secs
        self._outer_optimizer = outer_optimizer
        self._memberships: list[Membership] = []

    @property
    def accumulate_statistics(self) -> Callable[[], Operation] | None:
        """The local optimizer's `accumulate_statistics`, if it has one.

        `TowerOptimizer` runs it for each micro-batch.
        """
        accumulate = getattr(self._opt, "accumulate_statistics", None)
        if accumulate is None:
            return None

        def accumulate_locally() -> Operation:
            with self._local_scope():
                return accumulate()

        return accumulate_locally

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Returns the local optimizer's slot `name` for the local variable."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Returns the names of the local optimizer's slots."""
        return list(self._opt.get_slot_names())

    def variables(self) -> list[Variable]:
        """Returns the local optimizer's variables."""
        return list(self._opt.variables())

    def compute_gradients(
        self, *args: Any, **kwargs: Any
    ) -> list[tuple[Gradient | None, Variable]]:
        """Computes gradients as the local optimizer does, with its arguments."""
        with self._local_scope():
            return list(self._opt.compute_gradients(*args, **kwargs))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Makes a local step, and a round of averaging at the end of an interval.

        The round waits until all workers have contributed to it.

        Args:
          grads_and_vars: As returned by `compute_gradients`.
          global_step: Counts the averagings. It must be on a parameter server if there are several
            workers.
          name: Name of the operation.

        Returns:
          The training operation.

        Raises:
          ValueError: There is no gradient or no global step, the getter did not make one of the
            variables, or there are several workers and a variable is not on a parameter server.
        """
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars]
        weights = self._weights([var for gradient, var in pairs if gradient is not None])
        if global_step is None:
            raise ValueError(
                "ModelAverageOptimizer: global_step is None, but the averagings are counted in it. "
                "Pass tf.train.get_or_create_global_step() to minimize or apply_gradients."
            )
        self._check_places([global_step, *(pair.center for pair in weights)])
        shared_name = v1.get_default_graph().unique_name(self.get_name(), mark_as_used=False)
        with self._local_scope():
            stepped = self._opt.apply_gradients(pairs)
        with v1.device(self._getter.worker_device), v1.name_scope(self.get_name()):
            local_steps = local_counter("local_step", 0)
            with v1.control_dependencies(None):  # The hook's operations run outside of steps.
                rounds = self._rounds(shared_name, weights, global_step)
                has_trained = tf.logical_not(self._is_last(local_steps.read_value()))
                self._memberships.append(Membership(rounds, has_trained))
            with v1.control_dependencies([stepped]):
                is_last = self._is_last(v1.assign_add(local_steps, 1))
            return v1.group(run_if(is_last, rounds.run_round), name=name or "train")

    def get_init_op(self) -> Operation:
        """Returns the operation that copies the centers to the local variables.

        The hook runs it at the start of each session.

        Raises:
          ValueError: `apply_gradients` has not been called.
        """
        return v1.group(*(each.copy_centers for each in self._checked_memberships()))

    def make_session_run_hook(self) -> ModelAverageHook:
        """Returns the hook that every worker's session needs, chief or not.

        The hook allows workers to start late, end early, get lost, and come back.
        """
        return ModelAverageHook(self._checked_memberships, self._patience_secs)

    def _rounds(
        self, name: str, weights: Sequence[AveragedVariable], global_step: Variable
    ) -> Rounds:
        outer = self._outer_optimizer
        step = OuterStep("ModelAverageOptimizer", outer) if outer is not None else None
        return Rounds(name, weights, global_step, self._num_worker, self._is_chief, step)

    def _checked_memberships(self) -> Sequence[Membership]:
        if not self._memberships:
            raise ValueError(
                "ModelAverageOptimizer: the optimizer has not been applied, so there is nothing to "
                "average. Call minimize or apply_gradients on it before its hook is used."
            )
        return self._memberships

    def _weights(self, variables: Sequence[Variable]) -> list[AveragedVariable]:
        """Returns the getter's records of these variables."""
        if not variables:
            raise ValueError(
                "ModelAverageOptimizer: grads_and_vars holds no gradient. Pass the pairs that "
                "compute_gradients returned, and check that the loss depends on a variable."
            )
        known = {pair.local.ref(): pair for pair in self._getter.averaged}
        unknown = [var.op.name for var in variables if var.ref() not in known]
        if unknown:
            raise ValueError(
                f"ModelAverageOptimizer cannot average {', '.join(unknown)}: its getter has not "
                f"made them. It has made: {[pair.local.op.name for pair in self._getter.averaged]}."
                " Build the model with get_variable inside `with tf.variable_scope(name, "
                "custom_getter=getter):`."
            )
        return [known[var.ref()] for var in variables]

    def _check_places(self, shared: Sequence[Variable]) -> None:
        """Raises if a shared variable is on no parameter server."""
        unplaced = [variable.op.name for variable in shared if not variable.device]
        if self._num_worker > 1 and unplaced:
            raise ValueError(
                f"ModelAverageOptimizer cannot average over {self._num_worker} workers: "
                f"{', '.join(unplaced)} would be on each of them and not on a parameter server. "
                "Build the model and the global step under `with tf.device("
                "tf.train.replica_device_setter(...)):`."
            )

    def _is_last(self, steps: Tensor) -> Tensor:
        """Returns True if the step with this number ends an interval, bool []."""
        return tf.equal(steps % self._interval_steps, 0)

    @contextlib.contextmanager
    def _local_scope(self) -> Iterator[None]:
        """Makes operations and variables inside this context local to the worker."""
        device = self._getter.worker_device
        with v1.device(device), v1.variable_creator_scope(_make_local):
            yield


def _make_local(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
    """Makes a local variable in place of a global one; a variable creator."""
    collections = kwargs.get("collections") or [v1.GraphKeys.GLOBAL_VARIABLES]
    if v1.GraphKeys.GLOBAL_VARIABLES in collections:
        others = [key for key in collections if key != v1.GraphKeys.GLOBAL_VARIABLES]
        kwargs["collections"] = [*others, v1.GraphKeys.LOCAL_VARIABLES]
    return next_creator(**kwargs)


def _check_kind(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(
            f"ModelAverageOptimizer: {name} must be a {kind.__module__}.{kind.__qualname__}, got "
            f"{value!r}. Correct the argument."
        )


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(
            f"ModelAverageOptimizer: {name} must be an int ≥ 1, got {value!r}. Correct it."
        )
