"""Momentum and learning rate from the quadratic model of the loss along two directions.

For a step αd + μu, u being the step before, or its opposite, the model is

  q(α, μ) = ½ (αd + μu)ᵀ (F + λI) (αd + μu) + g·(αd + μu),

F = JᵀHJ/N of all the batch and not of its blocks. So the best α and μ are a learning rate and a
momentum that need no tuning. dᵀFd = |BᵀJd|²/N with BBᵀ = H, hence no product with Jᵀ is needed.
Called by the optimizer through `make_momentum`.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §6.4, §7 and appendix C.
"""

import typing
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.curvature.backward_pass import checked_batch_size
from kfac.curvature.estimation_modes import FISHER
from kfac.curvature_matrix_vector_products import CurvatureMatrixVectorProductComputer
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.vectors import Joined, Vector, inner_product, inner_products, squared_norm
from kfac.registration.loss_table import RegisteredLosses
from kfac.state import Assignment, make_variable, read
from kfac.update.momentum.rules import Momentum, Step, StepInputs, add_weight_decay
from kfac.workers import summed

v1 = tf.compat.v1

DEGENERATE_ANGLE = 100
"""Directions are taken as parallel if the squared sine of their angle, in the metric of the model,
is less than so many times the precision of the dtype."""


class QuadraticModel(NamedTuple):
    """q(x) = ½ xᵀ (C + λS) x + c·x for x = (α, μ).

    Attributes:
      curvature: C [2, 2], the products of d and u in F.
      squares: S [2, 2], their products in I.
      slopes: c [2], (g·d, g·u).
    """

    curvature: Tensor
    squares: Tensor
    slopes: Tensor

    def value(self, steps: Tensor, damping: Tensor) -> Tensor:
        """Returns q, shape [], at x [2], with λ, shape []."""
        products = tf.linalg.matvec(self.curvature + damping * self.squares, steps)
        return tf.tensordot(0.5 * products + self.slopes, steps, 1)

    def minimum(self, damping: Tensor) -> Tensor:
        """Returns the x [2] with the least q, with λ, shape [].

        Where g·u = 0, as before there is a step before, or the two directions are parallel, μ = 0.
        Where there is no curvature along d either, as before the first inverse, α = 0.
        """
        matrix = self.curvature + damping * self.squares
        a, b, c = matrix[0, 0], matrix[0, 1], matrix[1, 1]
        determinant = a * c - b * b
        precision = 2.0**-52 if matrix.dtype == tf.float64 else 2.0**-23
        epsilon = DEGENERATE_ANGLE * precision
        is_plane = tf.logical_and(determinant > epsilon * a * c, tf.not_equal(self.slopes[1], 0))
        divisor = tf.where(is_plane, determinant, tf.ones_like(determinant))
        alpha = (b * self.slopes[1] - c * self.slopes[0]) / divisor
        mu = (b * self.slopes[0] - a * self.slopes[1]) / divisor
        line = self.minimum_with(tf.zeros_like(mu), damping)
        return tf.where(is_plane, tf.stack([alpha, mu]), line)

    def minimum_with(self, momentum: Tensor, damping: Tensor) -> Tensor:
        """Returns the x [2] with the least q among those with a given μ, with λ, shape [] each."""
        matrix = self.curvature + damping * self.squares
        slope = momentum * matrix[0, 1] + self.slopes[0]
        has_curvature = tf.not_equal(matrix[0, 0], 0)
        divisor = tf.where(has_curvature, matrix[0, 0], tf.ones_like(slope))
        alpha = tf.where(has_curvature, -slope / divisor, tf.zeros_like(slope))
        return tf.stack([alpha, momentum])


@typing.final
class ExactCurvature:
    """F of all registered losses, over all towers, as needed for a quadratic model."""

    def __init__(
        self,
        losses: RegisteredLosses,
        mat_type: str,
        batch_size: Scalar | None,
        colocate_gradients_with_ops: bool = True,
    ) -> None:
        """Builds nothing yet.

        Args:
          losses: The registered losses.
          mat_type: "Fisher" for the Fisher matrix; with anything else it is the GGN.
          batch_size: N, examples over all towers; None means the rows of the first loss's inputs.
          colocate_gradients_with_ops: True to compute derivatives where the forward pass was.
        """
        self._losses = losses
        self._mat_type = mat_type
        self._batch_size = batch_size
        self._colocate = colocate_gradients_with_ops

    def model(
        self,
        variables: Sequence[Variable],
        direction: Joined,
        previous: Joined,
        gradients: Sequence[Vector],
        dtype: DType,
    ) -> QuadraticModel:
        """Returns the quadratic model along d and u.

        All vectors are in the order of the variables. The gradients g, of the mean loss, may be
        sparse. Scalars are computed in `dtype`.

        Raises:
          ValueError: The batch size does not fit to the losses.
        """
        pair = (direction, previous)
        first, second = (self._multiply(variables, vector.parts) for vector in pair)
        products, batch_size = summed(
            [self._products_of_images(first, second, dtype), tf.cast(self._examples(), dtype)]
        )
        return QuadraticModel(
            curvature=products / batch_size,
            squares=_inner_products([direction.whole], [previous.whole], dtype),
            slopes=tf.stack(inner_products(pair, gradients, dtype)),
        )

    def _multiply(self, variables: Sequence[Variable], vector: Sequence[Tensor]) -> list[Tensor]:
        """Returns √c·BᵀJv, by loss and tower."""
        products = CurvatureMatrixVectorProductComputer(self._losses, variables, self._colocate)
        if self._mat_type == FISHER:
            return products.multiply_fisher_factor_transpose(vector)
        return products.multiply_ggn_factor_transpose(vector)

    def _products_of_images(
        self, first: Sequence[Tensor], second: Sequence[Tensor], dtype: DType
    ) -> Tensor:
        """Returns Σ x·x, x·y, y·y as a symmetric matrix; each tower's share on its device."""
        totals = []
        for loss, x, y in zip(self._losses.loss_table.losses, first, second, strict=True):
            with v1.device(loss.device):
                totals.append(_inner_products([x], [y], dtype))
        return tf.add_n(totals)

    def _examples(self) -> Tensor:
        if self._batch_size is not None:
            return checked_batch_size(self._batch_size, self._losses)
        towers = self._losses.loss_table.towers_by_loss[0]
        return tf.add_n([tf.shape(tf.nest.flatten(loss.inputs)[0])[0] for loss in towers])


def _inner_products(x: Sequence[Tensor], y: Sequence[Tensor], dtype: DType) -> Tensor:
    """Returns x·x, x·y, y·y as a symmetric matrix [2, 2]."""
    xx, xy, yy = squared_norm(x, dtype), inner_product(x, y, dtype), squared_norm(y, dtype)
    return tf.reshape(tf.stack([xx, xy, xy, yy]), [2, 2])


@typing.final
class QuadraticModelMomentum(Momentum):
    """The weights change by αd + μu, d = M⁻¹g, u being the change before, as the model has it best.

    u is kept as the velocity v = −u, so that the model is made along d and v.
    """

    keeps_velocities = True
    knows_model_change = True  # The step is chosen by it.

    def __init__(
        self,
        curvature: ExactCurvature,
        fixed_momentum: Scalar | None,
        update_rescale: Scalar | None,
        weight_decay: Scalar | None,
        dtype: DType,
    ) -> None:
        """Makes no variables yet.

        Args:
          curvature: The exact curvature.
          fixed_momentum: μ; None means that the model chooses it, too.
          update_rescale: Multiplies the change of the weights, but not u; None means 1.
          weight_decay: Coefficient c, or None; d is then M⁻¹g + cθ.
          dtype: Dtype of the variables that keep α and μ.
        """
        self._curvature = curvature
        self._fixed_momentum = fixed_momentum
        self._update_rescale = 1.0 if update_rescale is None else update_rescale
        self._weight_decay = weight_decay
        self._dtype = dtype
        self._variables: tuple[Variable, ...] = ()

    def make_variables(self) -> None:
        """Makes the variables of −α and μ, which are NaN before the first step."""
        if not self._variables:
            self._variables = tuple(
                make_variable(name, [], self._dtype, initial=float("nan"))
                for name in ("qmodel_learning_rate", "qmodel_momentum")
            )

    @property
    def variables(self) -> list[Variable]:
        """−α and μ of the last step."""
        return list(self._variables)

    @property
    def summaries(self) -> dict[str, Scalar]:
        """The learning rate and momentum that the model chose, by name."""
        return {"learning_rate": self.learning_rate, "momentum": self.momentum}

    @property
    def learning_rate(self) -> Tensor:
        """−α of the last step times the rescaling; NaN before the first."""
        self.make_variables()
        return tensor_ops.as_scalar(self._update_rescale, self._dtype) * read(self._variables[0])

    @property
    def momentum(self) -> Tensor:
        """μ of the last step; NaN before the first."""
        self.make_variables()
        return read(self._variables[1])

    def step(self, inputs: StepInputs) -> Step:
        """Computes a step; Δq is the model's value at it, with λ' for λ.

        λ' is the `model_damping` of the inputs.
        """
        scalar = inputs.damping.dtype
        products = inputs.precondition(inputs.gradient_parts)
        decayed = add_weight_decay(products, inputs.weights, self._weight_decay)
        dense = [vectors.as_dense(part) for part in decayed]
        dtype = max((scalar, *(part.dtype for part in dense)), key=lambda x: x.size)
        direction, before = (vectors.joined(x, dtype) for x in (dense, inputs.velocities))
        gradients, variables = inputs.gradients, inputs.variables
        model = self._curvature.model(variables, direction, before, gradients, scalar)
        if self._fixed_momentum is None:
            chosen = model.minimum(inputs.damping)
        else:
            momentum = tensor_ops.as_scalar(self._fixed_momentum, scalar)
            chosen = model.minimum_with(-momentum, inputs.damping)
        rate, mu = tf.unstack(-chosen)
        (whole,) = vectors.add_scaled(vectors.scale(mu, [before.whole]), rate, [direction.whole])
        velocities = vectors.parted(whole, inputs.velocities)
        rescale = tensor_ops.as_scalar(self._update_rescale, scalar)
        return Step(
            raw=velocities,
            rate=rescale,
            velocities=velocities,
            model_change=lambda: model.value(rescale * chosen, inputs.model_damping),
            state=[
                Assignment(variable, tf.cast(value, self._dtype))
                for variable, value in zip(self._variables, (rate, mu), strict=True)
            ],
            bounds_velocities=True,
            whole=whole,
        )
