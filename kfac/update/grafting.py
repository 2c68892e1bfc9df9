"""Grafting: each layer moves in K-FAC's direction, as far as another optimizer would move it.

So learning rates and schedules that were found for the other optimizer suit K-FAC, too. The other
optimizer sees the gradients as they are. Called by `kfac.update.given_optimizer`.

References:
  Agarwal, Anil, Hazan, Koren & Zhang (2020), "Disentangling Adaptive Gradient Methods from Learning
  Rates", arXiv:2002.11803, §3, layer by layer.
  Anil, Gupta, Koren, Regan & Singer (2020), "Scalable Second Order Optimization for Deep Learning",
  arXiv:2002.09018, appendix.
  Kingma & Ba (2015), "Adam", arXiv:1412.6980, end of §2.
"""

import abc
import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Operation, Tensor, Variable
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.vectors import Vector, as_dense, entries
from kfac.state import CPU, Assignment, assign_all, group, make_counter, make_variable, read
from kfac.variables import name_of

v1 = tf.compat.v1

ADAM = "adam"
"""The name of `AdamGraft`, as the argument `graft`."""
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class Graft(abc.ABC):
    """An optimizer from whose steps lengths are taken."""

    @abc.abstractmethod
    def make_variables(self, variables: Sequence[Variable]) -> None:
        """Makes the state for variables, once."""

    @abc.abstractmethod
    def steps(
        self, gradients: Sequence[Vector], variables: Sequence[Variable]
    ) -> tuple[list[Tensor], Operation]:
        """Returns what it would subtract from variables, dense, and an op that keeps its state.

        Gradients have one part per variable, and may be sparse.
        """

    @property
    @abc.abstractmethod
    def variables(self) -> list[Variable]:
        """Its state; empty before it is made."""


@typing.final
class AdamGraft(Graft):
    """Adam with learning rate 1, β₁ = 0.9, β₂ = 0.999 and ε = 1e-8."""

    def __init__(self) -> None:
        """Makes no variables yet."""
        self._moments: list[tuple[Variable, Variable]] = []
        self._count: Variable = None

    def make_variables(self, variables: Sequence[Variable]) -> None:
        """Makes m and v of each variable, and the number of steps, once."""
        if self._count is not None:
            return
        with tf.init_scope():
            self._count = make_counter("graft_step")
            self._moments = [
                (
                    make_variable(f"{name_of(x)}/graft_m", x.shape, x.dtype.base_dtype, x.device),
                    make_variable(f"{name_of(x)}/graft_v", x.shape, x.dtype.base_dtype, x.device),
                )
                for x in variables
            ]

    def steps(
        self, gradients: Sequence[Vector], variables: Sequence[Variable]
    ) -> tuple[list[Tensor], Operation]:
        """Returns √(1 − β₂ᵗ)/(1 − β₁ᵗ)·m/(√v + ε), and an op that keeps m, v and t."""
        del variables
        with v1.device(CPU):
            count = read(self._count) + 1
            power = tf.cast(count, tf.float64)
            rate = tf.sqrt(1 - tf.pow(tf.constant(_BETA_2, tf.float64), power)) / (
                1 - tf.pow(tf.constant(_BETA_1, tf.float64), power)
            )
        changes, found = [Assignment(self._count, count)], []
        for gradient, (first, second) in zip(gradients, self._moments, strict=True):
            with v1.device(first.device):
                g, dtype = as_dense(gradient), first.dtype
                m = _averaged(read(first), g, _BETA_1)
                v = _averaged(read(second), tf.square(g), _BETA_2)
                found.append(tf.cast(rate, dtype) * m / (tf.sqrt(v) + tf.cast(_EPSILON, dtype)))
            changes += [Assignment(first, m), Assignment(second, v)]
        return found, assign_all(changes)

    @property
    def variables(self) -> list[Variable]:
        """t, and m and v of each variable."""
        moments = [moment for pair in self._moments for moment in pair]
        return moments if self._count is None else [self._count, *moments]


def _averaged(old: Tensor, new: Tensor, decay: float) -> Tensor:
    return tf.cast(decay, old.dtype) * old + tf.cast(1 - decay, old.dtype) * new


@typing.final
class OptimizerGraft(Graft):
    """An optimizer for graphs, which changes copies of the variables."""

    def __init__(self, optimizer: Any) -> None:
        """Takes a `tf.compat.v1.train.Optimizer`, which may depend on the weights."""
        self._optimizer = optimizer
        self._copies: list[Variable] = []

    def make_variables(self, variables: Sequence[Variable]) -> None:
        """Makes the copies, once."""
        if not self._copies:
            with tf.init_scope():
                self._copies = [
                    make_variable(f"{name_of(x)}/graft_copy", x.shape, x.dtype.base_dtype, x.device)
                    for x in variables
                ]

    def steps(
        self, gradients: Sequence[Vector], variables: Sequence[Variable]
    ) -> tuple[list[Tensor], Operation]:
        """Returns the differences of the copies, and the op that makes the optimizer's step."""
        before = [read(variable) for variable in variables]
        copied = assign_all([Assignment(*pair) for pair in zip(self._copies, before, strict=True)])
        with v1.control_dependencies([copied]):
            pairs = list(zip(gradients, self._copies, strict=True))
            done = group(self._optimizer.apply_gradients(pairs))
        with v1.control_dependencies([done]):
            after = [read(copy) for copy in self._copies]
        found = []
        for old, new in zip(before, after, strict=True):
            with v1.device(new.device):
                found.append(old - new)
        return found, done

    @property
    def variables(self) -> list[Variable]:
        """The copies, and the optimizer's own state."""
        return [*self._copies, *self._optimizer.variables()]


def grafted(
    products: Sequence[Vector],
    steps: Sequence[Tensor],
    variables: Sequence[Variable],
    layers: Sequence[Sequence[Variable]],
) -> list[Vector]:
    """Returns ‖Δ‖/‖p‖·p of each layer with product p and the other optimizer's step Δ.

    p and Δ have one part per variable. A variable of no layer has no direction of K-FAC: it gets Δ.
    A product of zero stays zero.
    """
    position = {variable.ref(): index for index, variable in enumerate(variables)}
    found: list[Vector] = list(steps)
    for layer in layers:
        own = [position[variable.ref()] for variable in layer]
        parts = [products[index] for index in own]
        dtype = tensor_ops.statistics_dtype(parts[0].dtype)
        with v1.device(entries(parts[0]).device):
            length = vectors.squared_norm(parts, dtype)
            wanted = vectors.squared_norm([steps[index] for index in own], dtype)
            ratio = tf.sqrt(tf.math.divide_no_nan(wanted, length))
        for index, part in zip(own, vectors.scale(ratio, parts), strict=True):
            found[index] = part
    return found
