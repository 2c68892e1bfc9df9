"""K-FAC as an optimizer of Keras 3, on its TensorFlow backend."""

import typing
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from kfac._types import DType, GradsAndVars, Scalar, Tensor, Variable
from kfac.keras.arguments import KfacOfBoth, loss_and_gradients
from kfac.keras.compiled import check_one_replica, model_of, turn_off_xla
from kfac.keras.saving import first_component
from kfac.keras.variable_store import make_at_once
from kfac.linalg.vectors import scale
from kfac.tracebacks import methods_show_user_frames


@typing.final
@keras.saving.register_keras_serializable(package="kfac")
@methods_show_user_frames
class Kfac(KfacOfBoth, keras.optimizers.Optimizer):
    """K-FAC for `compile` and `fit` of Keras 3, and for a loop in a `tf.function`.

    In each step it finds the losses and layers of the model in the graph of the training function,
    so nothing has to be registered: see `kfac.LayerCollection.auto_register_layers` for layers, and
    `kfac.keras.losses.ACCEPTED` for losses. The step is that of `kfac.PeriodicInvCovUpdateKfacOpt`.

    Learning rate, damping, momentum, weight decay and norm constraint may be numbers, which
    callbacks and programs may change, or schedules of the number of steps.

    Attributes:
      training: Settings and state that do not depend on Keras.
    """

    optimizers = keras.optimizers
    built: bool

    def _begin(self, learning_rate: Scalar, name: str) -> None:
        rate = float(learning_rate) if isinstance(learning_rate, int) else learning_rate
        super(KfacOfBoth, self).__init__(rate, name=name)

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

        Where Keras calls it before it makes the training function of several replicas, it turns
        `jit_compile` off for the model, and says so in the log.
        """
        if self.built and self.training.trained.variables:
            return
        self.built = True
        self.training.trained.build(variables)
        if self.given_optimizer is not None and variables:
            with tf.init_scope(), tf.variable_creator_scope(make_at_once):
                self.given_optimizer.build(variables)
        if self.training.model is None:
            self.training.model = model_of(self)
        if tf.executing_eagerly():
            turn_off_xla(self.training.model)

    @property
    def iterations(self) -> Variable:
        """The counter of steps."""
        return self._iterations

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
        pairs = list(grads_and_vars)
        self.apply([g for g, _ in pairs], [v for _, v in pairs], loss=loss)
        return self.iterations

    def apply(
        self,
        grads: Sequence[Tensor | None],
        trainable_variables: Sequence[Variable] | None = None,
        loss: Tensor | None = None,
    ) -> None:
        """Makes one step, in a `tf.function`.

        Nothing is done without gradients, as in Keras.

        Args:
          grads: Gradient of each variable, or None.
          trainable_variables: The variables; None means those that the optimizer was built with.
          loss: The loss, shape []; None means the one that went through `scale_loss`.

        Raises:
          RuntimeError: It is not called in a `tf.function`, or in cross-replica context.
          ValueError: There is not one gradient for each variable, the optimizer was made for other
            variables, the loss is not known, a layer or all of the loss is not known, XLA compiles
            a step of several replicas, or as in `kfac.KfacOptimizer.apply_gradients`.
        """
        if not grads:
            return
        trained = self.training.trained
        if trainable_variables is not None:
            self.build(list(trainable_variables))
        given = trained.variables if trainable_variables is None else list(trainable_variables)
        if len(grads) != len(given):
            raise ValueError(
                f"Kfac.apply was given {len(grads)} gradients for {len(given)} variables. Pass one "
                "for each, or None; and the variables, unless it was built for them."
            )
        check_one_replica()
        self.training.step(grads, given, lambda: self.learning_rate, self.iterations, loss)

    def _apply_given(self, gradients: Sequence[Any], variables: Sequence[Variable]) -> None:
        # Keras adds up the gradients of all replicas.
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        shares = gradients if replicas == 1 else scale(1 / replicas, gradients)
        self.given_optimizer.apply(shares, variables)

    def _rate_config(self) -> Any:
        return super(KfacOfBoth, self).get_config()["learning_rate"]
