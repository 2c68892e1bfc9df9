"""The K-FAC optimizer: preconditioned gradients with momentum and a bound on the step.

Owns the step itself: velocities, the counter, and the gate that keeps anything non-finite away
from the weights. Curvature is the estimator's; this class does not refresh it by itself
(`kfac.periodic` does). An ordinary `tf.compat.v1.train.Optimizer` to its callers, among them
wrappers that call `compute_gradients` once per tower and `apply_gradients` once.

References:
  Martens & Grosse (2015), arXiv:1503.05671.
  Ba, Grosse & Martens (2017), "Distributed second-order optimization using Kronecker-factored
  approximations", §5.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac import linalg
from kfac._types import GradsAndVars, Operation, Scalar, Tensor, Variable
from kfac.arguments import check_choice, check_number
from kfac.damped_matrix import RARE_PATHS
from kfac.estimator import FisherEstimator, Thunk
from kfac.fisher_factors.base import FisherFactor
from kfac.layer_collection import LayerCollection
from kfac.norm_constraint import norm_constraint_coefficient
from kfac.state import Assignment, assign_all, make_counter, read

v1 = tf.compat.v1

MOMENTUM_TYPES = ("adam", "regular")


class _Step(NamedTuple):
    """One update, before it is made.

    Attributes:
      raw: What is multiplied by the learning rate and subtracted, for each variable.
      velocities: The new velocities.
      is_finite: bool [], whether the step may be made.
    """

    raw: list[Tensor]
    velocities: list[Assignment]
    is_finite: Tensor


class KfacOptimizer(v1.train.GradientDescentOptimizer):
    """Gradient descent preconditioned by a Kronecker-factored Fisher matrix.

    The loss must be a mean over the batch. With gradient g, damped inverse M⁻¹, momentum β,
    velocity v and learning rate α the weights change by −α·raw, where

    * momentum_type "regular": v ← βv + M⁻¹g, raw = v;
    * momentum_type "adam": v ← βv + g, raw = M⁻¹v.

    A step with a non-finite entry changes neither weights nor velocities; it is counted in
    `skipped_steps`.
    """

    _step: _Step

    def __init__(
        self,
        learning_rate: Scalar,
        damping: Scalar,
        layer_collection: LayerCollection,
        cov_ema_decay: Scalar = 0.95,
        var_list: Sequence[Variable] | None = None,
        momentum: Scalar = 0.9,
        momentum_type: str = "adam",
        norm_constraint: Scalar | None = None,
        name: str = "KFAC",
        estimation_mode: str = "gradients",
        colocate_gradients_with_ops: bool = True,
        cov_devices: Sequence[str] | None = None,
        inv_devices: Sequence[str] | None = None,
    ) -> None:
        """Checks its arguments; makes no ops or variables.

        Args:
          learning_rate: α > 0, a number, Tensor or Variable.
          damping: λ > 0, a number, Tensor or Variable.
          layer_collection: Layers and losses. Towers may register until `apply_gradients`.
          cov_ema_decay: Weight of the past in the moving averages, in [0, 1].
          var_list: What to train; None means all that is registered.
          momentum: β ≥ 0, a number, Tensor or Variable.
          momentum_type: "adam" or "regular".
          norm_constraint: c > 0 bounds the squared Fisher norm of a step, or None.
          name: Name of the velocities and name scope of ops.
          estimation_mode: One of `kfac.estimator.ESTIMATION_MODES`; see `FisherEstimator`.
          colocate_gradients_with_ops: Whether gradients are computed where the forward pass was.
          cov_devices: Devices for the moving averages; None means those of the layers.
          inv_devices: Devices for the inverses; None means those of the layers.

        Raises:
          ValueError: A number is out of its range, or a choice is unknown.
        """
        check_number("learning_rate", learning_rate, "> 0", lambda x: x > 0)
        check_number("damping", damping, "> 0", lambda x: x > 0)
        check_number("cov_ema_decay", cov_ema_decay, "in [0, 1]", lambda x: 0 <= x <= 1)
        check_number("momentum", momentum, ">= 0", lambda x: x >= 0)
        check_number("norm_constraint", norm_constraint, "> 0, or None", lambda x: x > 0)
        check_choice("momentum_type", momentum_type, MOMENTUM_TYPES)
        super().__init__(learning_rate, name=name)
        self._damping = damping
        self._collection = layer_collection
        self._var_list = var_list
        self._momentum = momentum
        self._momentum_type = momentum_type
        self._norm_constraint = norm_constraint
        self._colocate = colocate_gradients_with_ops
        self._estimator = FisherEstimator(
            var_list,
            cov_ema_decay,
            damping,
            layer_collection,
            estimation_mode=estimation_mode,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=f"{name}/fisher",
            cov_devices=cov_devices,
            inv_devices=inv_devices,
        )
        self._counter: Variable = None
        self._skipped_steps: Variable = None

    @property
    def learning_rate(self) -> Scalar:
        """α as it was given."""
        return self._learning_rate

    @property
    def damping(self) -> Scalar:
        """λ as it was given."""
        return self._damping

    @property
    def momentum(self) -> Scalar:
        """β as it was given."""
        return self._momentum

    @property
    def layers(self) -> LayerCollection:
        """The layer collection."""
        return self._collection

    @property
    def registered_variables(self) -> tuple[Variable, ...]:
        """The parameters that are registered."""
        return self._collection.registered_variables

    @property
    def factors(self) -> tuple[FisherFactor, ...]:
        """The Kronecker factors; ends registration at first use."""
        return self._estimator.factors

    @property
    def counter(self) -> Variable:
        """How many steps were made or skipped, int64 []; made at first use."""
        if self._counter is None:
            self._counter = make_counter("counter")
        return self._counter

    @property
    def skipped_steps(self) -> Variable:
        """How many steps were skipped because they were not finite, int64 []; made at first use."""
        if self._skipped_steps is None:
            self._skipped_steps = make_counter("skipped_steps")
        return self._skipped_steps

    def get_cov_vars(self) -> list[Variable]:
        """Returns the variables of all moving averages, and the sample step."""
        return self._estimator.get_cov_vars()

    def get_inv_vars(self) -> list[Variable]:
        """Returns the variables of all inverses."""
        return self._estimator.get_inv_vars()

    def variables(self) -> list[Variable]:
        """Returns all state: velocities, averages, inverses, counters. Empty before it is made."""
        if self._counter is None:
            return []
        counters = [self.counter, self.skipped_steps]
        return [*super().variables(), *counters, *self.get_cov_vars(), *self.get_inv_vars()]

    def make_vars_and_create_op_thunks(
        self, scope: str | None = None
    ) -> tuple[list[Thunk], list[Thunk]]:
        """Makes the curvature's variables; see `FisherEstimator.make_vars_and_create_op_thunks`.

        Args:
          scope: Name scope of the ops.

        Returns:
          (cov updates, inv updates). Run the latter after the former, and both before the step.
        """
        return self._estimator.make_vars_and_create_op_thunks(scope)

    def create_ops_and_vars_thunks(
        self, scope: str | None = None
    ) -> tuple[
        list[Callable[[], Sequence[Variable]]],
        list[Thunk],
        list[Callable[[], Sequence[Variable]]],
        list[Thunk],
    ]:
        """Returns functions that make variables and ops; see `FisherEstimator`.

        Args:
          scope: Name scope of the ops.
        """
        return self._estimator.create_ops_and_vars_thunks(scope)

    def compute_gradients(
        self,
        loss: Tensor,
        var_list: Sequence[Variable] | None = None,
        gate_gradients: int = v1.train.Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Tensor | None = None,
    ) -> list[tuple[Tensor | None, Variable]]:
        """Computes gradients like any optimizer; leaves the layer collection open.

        Args:
          loss: The mean over the (tower's) batch, shape [].
          var_list: What to train; None means the constructor's choice, else all trainable.
          gate_gradients: As in `tf.compat.v1.train.Optimizer`.
          aggregation_method: As there.
          colocate_gradients_with_ops: As there; also true if the constructor's was.
          grad_loss: As there.
        """
        gradients: list[tuple[Tensor | None, Variable]] = super().compute_gradients(
            loss,
            var_list=self._var_list if var_list is None else var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops or self._colocate,
            grad_loss=grad_loss,
        )
        return gradients

    def apply_gradients(
        self,
        grads_and_vars: GradsAndVars,
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Makes one step, with the inverses as they are.

        Args:
          grads_and_vars: (gradient, variable) for every registered variable. Others may be among
            them only if their gradient is None.
          global_step: Incremented by one after the step.
          name: Name of the returned op.

        Raises:
          ValueError: A registered variable has no gradient, a variable with a gradient is not
            registered, or the collection is not complete.
        """
        pairs = self.check_gradients(grads_and_vars)
        variables = [variable for _, variable in pairs]
        with tf.init_scope():
            self._create_slots(variables)
        with v1.name_scope(f"{self._name}/step"):
            self._step = self._make_step(pairs)
        self._summarize()
        steps = list(zip(self._step.raw, variables, strict=True))
        return super().apply_gradients(steps, global_step=global_step, name=name)

    def check_gradients(self, grads_and_vars: GradsAndVars) -> list[tuple[Tensor, Variable]]:
        """Checks that gradients and registered variables match.

        Args:
          grads_and_vars: As in `apply_gradients`.

        Returns:
          The pairs that have a gradient, which is dense.

        Raises:
          ValueError: They do not match; the message names the variables.
        """
        pairs = [(tf.convert_to_tensor(g), v) for g, v in grads_and_vars if g is not None]
        present = {variable.ref() for _, variable in pairs}
        registered = {variable.ref() for variable in self.registered_variables}
        uncovered = [v.op.name for _, v in pairs if v.ref() not in registered]
        if uncovered:
            raise ValueError(
                f"K-FAC cannot train {', '.join(uncovered)}: no layer registered in "
                f"{self._collection.name} covers them. Register their layers with "
                "register_fully_connected or register_conv2d (a bias goes with its weight, as "
                "(weight, bias)), or train them with another optimizer and leave them out of "
                "var_list."
            )
        unreached = [v.op.name for v in self.registered_variables if v.ref() not in present]
        if unreached:
            raise ValueError(
                f"K-FAC has no gradient for {', '.join(unreached)}, which are registered in "
                f"{self._collection.name}. Pass the gradients of all registered variables; see "
                "that the loss depends on them, or do not register their layers."
            )
        return pairs

    # The step.

    def _make_step(self, pairs: Sequence[tuple[Tensor, Variable]]) -> _Step:
        """Computes the update and the new velocities, replaced by "no change" if not finite."""
        gradients, variables = (list(column) for column in zip(*pairs, strict=True))
        slots = [self.get_slot(variable, "velocity") for variable in variables]
        old = [read(slot) for slot in slots]
        if self._momentum_type == "adam":
            velocities = self._with_momentum(old, gradients)
            raw = self._preconditioned(velocities, variables)
        else:
            velocities = self._with_momentum(old, self._preconditioned(gradients, variables))
            raw = velocities
        everything = [*raw, *velocities, self._wide_learning_rate(gradients)]
        is_finite = tf.reduce_all([linalg.all_finite(tensor) for tensor in everything])
        return _Step(
            raw=[tf.where(is_finite, r, tf.zeros_like(r)) for r in raw],
            velocities=[
                Assignment(slot, tf.where(is_finite, new, before))
                for slot, new, before in zip(slots, velocities, old, strict=True)
            ],
            is_finite=is_finite,
        )

    def _with_momentum(self, old: Sequence[Tensor], new: Sequence[Tensor]) -> list[Tensor]:
        """Returns βv + x for each velocity v and vector x."""
        return [
            linalg.as_scalar(self._momentum, v.dtype) * v + x for v, x in zip(old, new, strict=True)
        ]

    def _preconditioned(
        self, vectors: Sequence[Tensor], variables: Sequence[Variable]
    ) -> list[Tensor]:
        """Returns M⁻¹x for the vectors x, shortened to the norm constraint."""
        pairs = list(zip(vectors, variables, strict=True))
        products = [product for product, _ in self._estimator.multiply_inverse(pairs)]
        if self._norm_constraint is None:
            return products
        learning_rate = self._wide_learning_rate(vectors)
        dtype = learning_rate.dtype
        inner = [
            tf.reduce_sum(tf.cast(p, dtype) * tf.cast(x, dtype))
            for p, x in zip(products, vectors, strict=True)
        ]
        coefficient = norm_constraint_coefficient(
            tf.add_n(inner), learning_rate, linalg.as_scalar(self._norm_constraint, dtype)
        )
        return [tf.cast(coefficient, p.dtype) * p for p in products]

    def _wide_learning_rate(self, vectors: Sequence[Tensor]) -> Tensor:
        """Returns α in the precision of the vectors, at least float32."""
        return linalg.as_scalar(self._learning_rate, linalg.statistics_dtype(vectors[0].dtype))

    # What the base class calls.

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for variable in var_list:
            self._zeros_slot(variable, "velocity", self._name)

    def _prepare(self) -> None:
        rate = self._wide_learning_rate(self._step.raw)
        self._learning_rate_tensor = tf.where(self._step.is_finite, rate, tf.zeros_like(rate))

    def _finish(self, update_ops: Sequence[Operation], name_scope: str) -> Operation:
        """Adds the velocities and counters to the update of the weights."""
        with v1.control_dependencies(update_ops):
            skipped = tf.cast(tf.logical_not(self._step.is_finite), tf.int64)
            counters = [
                Assignment(self.counter, read(self.counter) + 1),
                Assignment(self.skipped_steps, read(self.skipped_steps) + skipped),
            ]
            bookkeeping = assign_all([*self._step.velocities, *counters])
        return super()._finish([*update_ops, bookkeeping], name_scope)

    def _summarize(self) -> None:
        """Adds scalar summaries of the damping and of all that went wrong so far."""
        refused = [read(factor.get_cov_vars()[-1]) for factor in self.factors]
        slots = [slot for factor in self.factors for slot in factor.inverses]
        none = tf.zeros([len(RARE_PATHS)], tf.int64)
        rare_paths = tf.unstack(tf.add_n([none, *(slot.read_rare_paths() for slot in slots)]))
        with v1.name_scope("kfac/monitor/"):
            v1.summary.scalar("damping", linalg.as_scalar(self._damping, tf.float32))
            v1.summary.scalar("skipped_steps", read(self.skipped_steps))
            v1.summary.scalar("refused_statistics", tf.add_n(refused))
            for name, total in zip(RARE_PATHS, rare_paths, strict=True):
                v1.summary.scalar(f"{name}_inverses", total)
