"""K-FAC as an optimizer of tf_keras, and of the Keras of TensorFlow 2.15."""

import importlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, GradsAndVars, Scalar, Tensor, Variable
from kfac.canned import CannedKfac
from kfac.config import CurvatureConfig
from kfac.keras.arguments import check_needed, loss_and_gradients
from kfac.keras.compiled import check_no_xla, model_of
from kfac.keras.for_estimator import for_estimator
from kfac.keras.layers import Approximations
from kfac.keras.saving import as_config, from_config, load_state, save_state
from kfac.keras.step import StepSettings
from kfac.keras.training import Training, changeable
from kfac.keras.variable_store import VariableStore

_IS_OLD = str(getattr(tf.keras, "__version__", "2.")).startswith("2.")
keras: Any = tf.keras if _IS_OLD else importlib.import_module("tf_keras")


@typing.final
@keras.utils.register_keras_serializable(package="kfac")
class Kfac(keras.optimizers.Optimizer):
    """K-FAC for `compile` and `fit` of tf_keras, and for a loop in a `tf.function`.

    The same as `kfac.keras.Kfac` of Keras 3, with the same arguments.

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
        """Checks its arguments, which are those of `kfac.keras.current.Kfac`.

        Raises:
          ValueError: A number is missing or out of its range, or two arguments exclude each other.
          TypeError: An argument is unknown.
        """
        check_needed(adaptive, learning_rate, damping)
        super().__init__(name=name, weight_decay=None, jit_compile=False)
        rate = 0.0 if learning_rate is None else learning_rate
        self._learning_rate = self._build_learning_rate(rate)
        self._schedule = rate if callable(rate) else None
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
        return self.add_variable([], tf.float32, lambda *_: tf.constant(value, tf.float32), name)

    def _make_variable(
        self, name: str, first: Callable[[], Tensor], shape: tuple[int, ...], dtype: DType
    ) -> Variable:
        made = self.add_variable(shape, dtype, lambda *_: first(), name)
        return tf.distribute.get_strategy().experimental_local_results(made)[0]

    def build(self, var_list: Sequence[Variable]) -> None:
        """Prepares for variables."""
        super().build(var_list)
        self._built = True

    def compute_gradients(
        self, loss: Tensor, var_list: Sequence[Variable], tape: Any = None
    ) -> list[tuple[Tensor | None, Variable]]:
        """Computes gradients, and remembers the loss for the step; called by `fit`.

        Args:
          loss: Returns the loss, shape []; or the loss itself, with the tape that recorded it.
          var_list: The variables to train.
          tape: A `tf.GradientTape`, if the loss is a Tensor.

        Raises:
          RuntimeError: It is not called in a `tf.function`.
          ValueError: A Tensor was given without a tape.
        """
        variables = var_list() if callable(var_list) else list(var_list)
        value, gradients = loss_and_gradients(loss, variables, tape)
        self.training.remember(value)
        return list(zip(gradients, variables, strict=True))

    def minimize(self, loss: Tensor, var_list: Sequence[Variable], tape: Any = None) -> Tensor:
        """Makes one step, in a `tf.function`; returns the loss before it.

        Arguments and errors are those of `compute_gradients` and `apply_gradients`.
        """
        pairs = self.compute_gradients(loss, var_list, tape)
        value = self.training.remembered()
        self.apply_gradients(pairs)
        return value

    def apply_gradients(
        self,
        grads_and_vars: GradsAndVars,
        name: str | None = None,
        loss: Tensor | None = None,
        **kwargs: Any,
    ) -> Variable:
        """Makes one step, in a `tf.function`.

        Args:
          grads_and_vars: (gradient, variable) pairs; a gradient may be None. Those of several
            replicas are added up.
          name: Of no effect.
          loss: The loss, shape []; None means the one that `compute_gradients` was given.
          **kwargs: Must be empty: gradients are always those of the replica.

        Returns:
          The counter of steps.

        Raises:
          RuntimeError: It is not called in a `tf.function`, or in cross-replica context.
          ValueError: The loss is not known, a layer or all of the loss is not known, the model is
            compiled with jit_compile=True, or as in `kfac.KfacOptimizer.apply_gradients`.
          TypeError: An argument is unknown.
        """
        del name
        if kwargs:
            raise TypeError(f"Kfac.apply_gradients has no arguments {', '.join(kwargs)}.")
        gradients, variables = zip(*grads_and_vars, strict=True)
        with tf.init_scope():
            self.build(variables)
        if self.training.model is None:
            self.training.model = model_of(self)
        check_no_xla(self.training.model)
        self.training.step(gradients, variables, self._current_rate, self.iterations, loss)
        for variable in variables:
            if getattr(variable, "constraint", None) is not None:
                variable.assign(variable.constraint(variable))
        return self.iterations

    def _current_rate(self) -> Scalar:
        return self.learning_rate if self._schedule is None else self._schedule(self.iterations)

    # State.

    def save_own_variables(self, store: Any) -> None:
        """Writes all state into a store, by name."""
        save_state(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Sets all state from a store, now or when the state is made."""
        load_state(self, store)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, with numbers as they now are; without the model."""
        is_adaptive = self.training.settings.adaptive
        rate = self._serialize_hyperparameter(self._learning_rate)
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
