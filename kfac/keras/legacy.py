"""K-FAC as an optimizer of tf_keras, and of the Keras of TensorFlow 2.15."""

import importlib
import typing
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, GradsAndVars, Scalar, Tensor, Variable
from kfac.keras.arguments import KfacOfBoth, loss_and_gradients
from kfac.keras.compiled import check_one_replica, model_of, refuse_scaled_steps
from kfac.keras.refusals import refused
from kfac.keras.variable_store import make_at_once
from kfac.tracebacks import methods_show_user_frames

_IS_OLD = str(getattr(tf.keras, "__version__", "2.")).startswith("2.")
keras: Any = tf.keras if _IS_OLD else importlib.import_module("tf_keras")


@typing.final
@keras.utils.register_keras_serializable(package="kfac")
@methods_show_user_frames
class Kfac(KfacOfBoth, keras.optimizers.Optimizer):
    """K-FAC for `compile` and `fit` of tf_keras, and for a loop in a `tf.function`.

    The same as `kfac.keras.Kfac` of Keras 3, with the same arguments.

    Attributes:
      training: Settings and state that do not depend on Keras.
    """

    optimizers = keras.optimizers
    jit_compile = refused("jit_compile")

    @property
    def _is_wrapped_by_loss_scale_optimizer(self) -> bool:
        return False

    @_is_wrapped_by_loss_scale_optimizer.setter
    def _is_wrapped_by_loss_scale_optimizer(self, value: bool) -> None:
        # Keras sets it for each optimizer that it wraps, when a model is compiled.
        if value:
            refuse_scaled_steps()

    def _begin(self, learning_rate: Scalar, name: str) -> None:
        super(KfacOfBoth, self).__init__(name=name, weight_decay=None, jit_compile=False)
        self._learning_rate = self._build_learning_rate(learning_rate)

    def _make_number(self, name: str, value: float) -> Variable:
        return self.add_variable([], tf.float32, lambda *_: tf.constant(value, tf.float32), name)

    def _make_variable(
        self, name: str, first: Callable[[], Tensor], shape: tuple[int, ...], dtype: DType
    ) -> Variable:
        made = self.add_variable(shape, dtype, lambda *_: first(), name)
        return tf.distribute.get_strategy().experimental_local_results(made)[0]

    def build(self, var_list: Sequence[Variable]) -> None:
        """Prepares for variables."""
        if getattr(self, "_built", False) and self.training.trained.variables:
            return
        super().build(var_list)
        self._built = True
        self.training.trained.build(var_list)
        if self.given_optimizer is not None:
            with tf.init_scope(), tf.variable_creator_scope(make_at_once):
                self.given_optimizer.build(var_list)

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
          ValueError: The optimizer was made for other variables, the loss is not known, a layer or
            all of the loss is not known, XLA compiles a step of several replicas, or as in
            `kfac.KfacOptimizer.apply_gradients`.
          TypeError: An argument is unknown.
        """
        del name
        if kwargs:
            raise TypeError(f"Kfac.apply_gradients has no arguments {', '.join(kwargs)}.")
        pairs = list(grads_and_vars)
        if not pairs:
            return self.iterations
        gradients, variables = zip(*pairs, strict=True)
        with tf.init_scope():
            self.build(variables)
        if self.training.model is None:
            self.training.model = model_of(self)
        check_one_replica()
        self.training.step(gradients, variables, self._current_rate, self.iterations, loss)
        return self.iterations

    def _apply_given(self, gradients: Sequence[Any], variables: Sequence[Variable]) -> None:
        pairs = list(zip(gradients, variables, strict=True))
        self.given_optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)

    def _current_rate(self) -> Scalar:
        if not callable(self._learning_rate):
            return self.learning_rate
        if not hasattr(self, "_current_learning_rate"):
            with tf.init_scope():
                self._build_learning_rate(self._learning_rate)
        rate = tf.convert_to_tensor(self._learning_rate(self.iterations))
        self._current_learning_rate.assign(rate)
        return rate

    def _rate_config(self) -> Any:
        return self._serialize_hyperparameter(self._learning_rate)
