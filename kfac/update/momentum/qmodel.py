"""Momentum and learning rate from the quadratic model of the loss.

The model and its minimum are in `kfac.update.quadratic_model`. Called by the optimizer through
`make_momentum`.

References:
  Martens & Grosse (2015), arXiv:1503.05671, §7.
"""

import typing
from collections.abc import Sequence

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.linalg import tensor_ops, vectors
from kfac.linalg.vectors import Vector
from kfac.state import Assignment, make_variable, read
from kfac.update.momentum.base import Momentum, Step, StepInputs, add_weight_decay
from kfac.update.quadratic_model import ExactCurvature


@typing.final
class QuadraticModelMomentum(Momentum):
    """The weights change by αd + μu, d = M⁻¹g, u being the change before, as the model has it best.

    u is kept as the velocity v = −u, so that the model is made along d and v.
    """

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

    @property
    def keeps_velocities(self) -> bool:
        """Always: they are the step before."""
        return True

    @property
    def knows_model_change(self) -> bool:
        """Always: the step is chosen by it."""
        return True

    def step(
        self, inputs: StepInputs, vector: Sequence[Vector], products: Sequence[Vector]
    ) -> Step:
        """Computes a step; Δq is the model's value at it, with λ' for λ.

        Args:
          inputs: Gradients and curvature; λ' is its `model_damping`.
          vector: g.
          products: M⁻¹g.
        """
        decayed = add_weight_decay(products, inputs.weights, self._weight_decay)
        dense = [vectors.as_dense(part) for part in decayed]
        dtype = max((inputs.dtype, *(part.dtype for part in dense)), key=lambda x: x.size)
        direction, before = (vectors.joined(x, dtype) for x in (dense, inputs.velocities))
        model = self._curvature.model(inputs.variables, direction, before, vector, inputs.dtype)
        if self._fixed_momentum is None:
            chosen = model.minimum(inputs.damping)
        else:
            momentum = tensor_ops.as_scalar(self._fixed_momentum, inputs.dtype)
            chosen = model.minimum_with(-momentum, inputs.damping)
        rate, mu = tf.unstack(-chosen)
        (whole,) = vectors.add_scaled(vectors.scale(mu, [before.whole]), rate, [direction.whole])
        velocities = vectors.parted(whole, inputs.velocities)
        rescale = tensor_ops.as_scalar(self._update_rescale, inputs.dtype)
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
