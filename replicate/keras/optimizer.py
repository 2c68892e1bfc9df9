"""DistributedOptimizer: an optimizer of Keras whose gradients are those of all processes."""

from collections.abc import Sequence
from typing import Any, TypeVar

import keras
import tensorflow as tf

from model_deploy.gradients import gradient_values, with_values
from replicate._types import Gradient, Tensor, Variable
from replicate.keras.process import Process, current
from replicate.keras.sums import StepSums
from replicate.protocols import WORKERS

v1 = tf.compat.v1

_Optimizer = TypeVar("_Optimizer", bound="keras.optimizers.Optimizer")


def DistributedOptimizer(optimizer: _Optimizer) -> _Optimizer:  # noqa: N802
    """Lets an optimizer make its steps with the mean gradient over all processes.

    Its class, settings, state and saved form stay. Gradients are summed inside the compiled step
    by TensorFlow's collectives, in packs, before anything else is done with them: clipping, moving
    averages and a loss scale are decided by all processes alike. `kfac.keras.Kfac` also sums its
    statistics, and each process computes a part of the inverses.

    All processes count the same. n processes make the step of one on the batches of all of them
    together if their batches have equally many rows.

    Args:
      optimizer: An optimizer of Keras 3, which is changed and returned.

    Raises:
      TypeError: It is not an optimizer of Keras 3.
      ValueError: It was given before, or the processes cannot be connected, as in `init`.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            "DistributedOptimizer takes an optimizer of Keras 3 with its TensorFlow backend, such "
            f"as keras.optimizers.Adam(1e-3); got {optimizer!r}."
        )
    process = current()
    if process.size == 1:
        return optimizer
    if sums_gradients(optimizer):
        raise ValueError(
            f"DistributedOptimizer was given {optimizer.name!r} twice: its gradients would be "
            "summed twice. Give it once."
        )
    optimizer.apply = _SummedApply(optimizer, process)
    return optimizer


def sums_gradients(optimizer: Any) -> bool:
    """Returns True for an optimizer of `DistributedOptimizer`, also inside of another one."""
    both = (optimizer, getattr(optimizer, "inner_optimizer", None))
    return any(isinstance(getattr(each, "apply", None), _SummedApply) for each in both)


class _SummedApply:
    """The method `apply` of an optimizer, after gradients were summed."""

    def __init__(self, optimizer: Any, process: Process) -> None:
        """Keeps the method as it is."""
        self._apply = optimizer.apply
        self._optimizer = optimizer
        self._process = process
        self._first_key = process.take_keys()

    def __call__(
        self,
        grads: Sequence[Gradient | None],
        trainable_variables: Sequence[Variable] | None = None,
        **rest: Any,
    ) -> Any:
        """Makes one step, in a `tf.function`.

        Args:
          grads: Gradient of this process's batch for each variable, or None.
          trainable_variables: The variables; None means those that the optimizer was built with.
          **rest: Further arguments of the optimizer's own `apply`.

        Raises:
          RuntimeError: TensorFlow executes eagerly.
          ValueError: A gradient's shape is not known, or Keras scales the loss around this
            optimizer.
        """
        if tf.executing_eagerly():
            raise RuntimeError(
                "DistributedOptimizer's step was called where TensorFlow executes eagerly. In a "
                "loop of your own put the step into a tf.function; with compile, leave "
                "run_eagerly=False."
            )
        self._check_scale()
        sums = StepSums(self._process.group(self._first_key))
        v1.add_to_collection(WORKERS, sums)
        variables = trainable_variables or [None] * len(grads)
        dense = {
            place: _dense(gradient, variable)
            for place, (gradient, variable) in enumerate(zip(grads, variables, strict=True))
            if gradient is not None and not isinstance(gradient, tf.IndexedSlices)
        }
        total: dict[int, Gradient] = dict(zip(dense, sums.sum([*dense.values()]), strict=True))
        for place, gradient in enumerate(grads):
            if isinstance(gradient, tf.IndexedSlices):
                total[place] = sums.gathered(gradient)
        means = {place: _divided(each, sums.size) for place, each in total.items()}
        return self._apply([means.get(p) for p in range(len(grads))], trainable_variables, **rest)

    def _check_scale(self) -> None:
        is_scaled = isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)
        if keras.config.dtype_policy().name == "mixed_float16" and not is_scaled:
            raise ValueError(
                "Under the policy 'mixed_float16' Keras makes a step only where the gradients are "
                "finite, which every process must decide alike. Write DistributedOptimizer("
                "keras.optimizers.LossScaleOptimizer(optimizer)), or use 'mixed_bfloat16'."
            )


def _dense(gradient: Tensor, variable: Variable | None) -> Tensor:
    """Returns a gradient of known shape, on the device from which it is sent."""
    on_gpu = bool(tf.config.list_logical_devices("GPU"))
    with v1.device("/device:GPU:0" if on_gpu else None):
        values = tf.identity(gradient)
    shape = values.shape if variable is None else values.shape.merge_with(variable.shape)
    if not shape.is_fully_defined():
        raise ValueError(
            f"DistributedOptimizer needs the shapes of all gradients, and that of "
            f"{getattr(variable, 'path', values.name)!r} is {shape}."
        )
    return tf.ensure_shape(values, shape)


def _divided(gradient: Gradient, number: int) -> Gradient:
    values = gradient_values(gradient)
    return with_values(gradient, values / tf.constant(number, values.dtype))
