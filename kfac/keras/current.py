"""K-FAC as an optimizer of Keras 3, on its TensorFlow backend."""

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from kfac._types import DType, GradsAndVars, Scalar, Tensor, Variable
from kfac.canned import CannedKfac
from kfac.config import CurvatureConfig
from kfac.keras.arguments import check_needed, loss_and_gradients
from kfac.keras.compiled import check_no_xla, model_of, turn_off_xla
from kfac.keras.for_estimator import for_estimator
from kfac.keras.layers import Approximations
from kfac.keras.saving import (
    as_config,
    first_component,
    from_config,
    load_state,
    save_state,
)
from kfac.keras.step import StepSettings
from kfac.keras.training import Training, changeable
from kfac.keras.variable_store import VariableStore


@typing.final
@keras.saving.register_keras_serializable(package="kfac")
class Kfac(keras.optimizers.Optimizer):
    """K-FAC for `compile` and `fit` of Keras 3, and for a loop in a `tf.function`.

    In each step it finds the losses and layers of the model in the graph of the training function,
    so nothing has to be registered: see `kfac.LayerCollection.auto_register_layers` for layers, and
    `kfac.keras.losses.ACCEPTED` for losses. The step is that of `kfac.PeriodicInvCovUpdateKfacOpt`.

    Learning rate, damping, momentum, weight decay and norm constraint may be numbers, which
    callbacks and programs may change, or schedules of the number of steps.

    Attributes:
      training: Settings and state that do not depend on Keras.
    """

    damping = changeable("damping", "λ: a variable, or its schedule. Numbers can be assigned.")
    momentum = changeable("momentum", "β: a variable, its schedule, or None.")
    weight_decay = changeable("weight_decay", "Decay over the learning rate: as `momentum`.")
    norm_constraint = changeable("norm_constraint", "Bound of a step: as `momentum`.")

    def __init__(
        self,
        learning_rate: Scalar | None = None,
        damping: Scalar | None = None,
        momentum: Scalar | None = 0.9,
        model: Any = None,
        fisher_approx: Approximations = None,
        adaptive: bool = False,
        *,
        weight_decay: Scalar | None = None,
        norm_constraint: Scalar | None = None,
        unknown_layers: str = "error",
        batch_size: int | None = None,
        gradient_accumulation_steps: int | None = None,
        config: CurvatureConfig | Mapping[str, Any] | None = None,
        name: str = "kfac",
        **settings: Any,
    ) -> None:
        """Checks its arguments.

        Args:
          learning_rate: α > 0, a number or a schedule. Left out if `adaptive`.
          damping: λ > 0, a number or a schedule. With `adaptive` the first λ in multiples of the
            mean curvature, 0.1 if left out; otherwise it is needed.
          momentum: β ≥ 0, or None or 0 for none. Of no effect if `adaptive`.
          model: The Keras model. None means the one that is compiled with this optimizer. In a loop
            of your own it is needed where `fisher_approx` names classes.
          fisher_approx: Approximation of a layer's Fisher matrix, by the layer's name or class,
            such as {"logits": "ekfac", keras.layers.Conv2D: "diagonal"}; or one name for all layers
            that have it. Names are those of `kfac.layer_collection.APPROX_...`.
          adaptive: Whether learning rate, momentum and damping are computed in each step, as
            `kfac.adaptive` does.
          weight_decay: Share of a weight that decays in a step, over the learning rate.
          norm_constraint: c > 0 bounds the squared Fisher norm of a step.
          unknown_layers: The treatment of variables in no layer that K-FAC knows: "error", or
            "diagonal" for the diagonal of their Fisher matrix, with a warning.
          batch_size: Examples in the batch of one replica; None means the rows of what the model
            predicts. Needed if the model folds other axes into these rows.
          gradient_accumulation_steps: Batches that make one step together.
          config: Settings of all factors.
          name: Name of the optimizer.
          **settings: Further arguments of `kfac.PeriodicInvCovUpdateKfacOpt`, such as
            `invert_every`, `cov_ema_decay` or `estimation_mode`.

        Raises:
          ValueError: A number is missing or out of its range, or two arguments exclude each other.
          TypeError: An argument is unknown.
        """
        check_needed(adaptive, learning_rate, damping)
        rate = 0.0 if learning_rate is None else learning_rate
        super().__init__(float(rate) if isinstance(rate, int) else rate, name=name)
        self.training = Training(
            StepSettings(
                adaptive,
                fisher_approx,
                unknown_layers,
                batch_size,
                gradient_accumulation_steps,
                CurvatureConfig(**config) if isinstance(config, Mapping) else config,
                settings,
            ),
            VariableStore(self._make_variable),
            model,
            None if adaptive else learning_rate,
            {
                "damping": 0.1 if damping is None else damping,
                "momentum": None if adaptive else momentum,
                "weight_decay": weight_decay,
                "norm_constraint": norm_constraint,
            },
        )
        self.training.make_numbers(self._make_number)

    def _make_number(self, name: str, value: float) -> Variable:
        return self.add_variable(
            (), lambda *_, **__: tf.constant(value, tf.float32), "float32", name=name
        )

    def _make_variable(
        self, name: str, first: Callable[[], Tensor], shape: tuple[int, ...], dtype: DType
    ) -> Variable:
        name = name.replace("/", ".")
        made = self.add_variable(shape, lambda *_, **__: first(), dtype.name, name=name)
        return first_component(made)

    def build(self, variables: Sequence[Variable]) -> None:
        """Prepares for variables.

        Where Keras calls it before it makes the training function, it turns `jit_compile` off for
        the model, and says so in the log.
        """
        if self.built:
            return
        super().build(variables)
        if self.training.model is None:
            self.training.model = model_of(self)
        if tf.executing_eagerly():
            turn_off_xla(self.training.model)

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Returns the loss, and remembers it for the step; called by `fit`."""
        self.training.remember(loss)
        return loss

    def minimize(
        self, loss: Callable[[], Tensor], variables: Sequence[Variable], tape: Any = None
    ) -> Tensor:
        """Makes one step, in a `tf.function`.

        Args:
          loss: Returns the loss, shape []; or the loss itself, with the tape that recorded it.
          variables: The variables to train.
          tape: A `tf.GradientTape`, if the loss is a Tensor.

        Returns:
          The loss before the step.

        Raises:
          RuntimeError: It is not called in a `tf.function`.
          ValueError: A Tensor was given without a tape, or as in `apply`.
        """
        value, gradients = loss_and_gradients(loss, variables, tape)
        self.apply(gradients, variables, loss=value)
        return value

    def apply_gradients(self, grads_and_vars: GradsAndVars, loss: Tensor | None = None) -> Variable:
        """Makes one step, as `apply` does; returns the counter of steps."""
        gradients, variables = zip(*grads_and_vars, strict=True)
        self.apply(gradients, variables, loss=loss)
        return self.iterations

    def apply(
        self,
        grads: Sequence[Tensor | None],
        trainable_variables: Sequence[Variable] | None = None,
        loss: Tensor | None = None,
    ) -> None:
        """Makes one step, in a `tf.function`.

        Args:
          grads: Gradient of each variable, or None.
          trainable_variables: The variables; None means those that the optimizer was built with.
          loss: The loss, shape []; None means the one that went through `scale_loss`.

        Raises:
          RuntimeError: It is not called in a `tf.function`, or in cross-replica context.
          ValueError: The loss is not known, a layer or all of the loss is not known, the model is
            compiled with XLA, or as in `kfac.KfacOptimizer.apply_gradients`.
        """
        given = self._trainable_variables if trainable_variables is None else trainable_variables
        variables = list(given)
        if not self.built:
            self.build(variables)
        check_no_xla(self.training.model)
        self.training.step(grads, variables, lambda: self.learning_rate, self.iterations, loss)
        for variable in variables:
            if getattr(variable, "constraint", None) is not None:
                variable.assign(variable.constraint(variable))

    # State.

    def save_own_variables(self, store: Any) -> None:
        """Writes all state into a store, by name."""
        save_state(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Sets all state from a store, now or when the state is made."""
        load_state(self, store)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, with numbers as they now are; without the model."""
        rate = super().get_config()["learning_rate"]
        is_adaptive = self.training.settings.adaptive
        return {
            "name": self.name,
            "learning_rate": None if is_adaptive else rate,
            **as_config(self.training, keras.optimizers.schedules.serialize),
        }

    def for_estimator(self) -> CannedKfac:
        """Returns K-FAC for an Estimator; `replicate.model_to_estimator` calls it.

        Raises:
          ValueError: The settings are adaptive, or name approximations, unknown layers or
            accumulation.
        """
        return for_estimator(
            self.training, self.get_config(), keras.optimizers.schedules.deserialize
        )

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "Kfac":
        """Returns an optimizer made with the arguments that `get_config` returned."""
        deserialize = keras.optimizers.schedules.deserialize
        return cls(**from_config(config, lambda value: deserialize(value, custom_objects)))
