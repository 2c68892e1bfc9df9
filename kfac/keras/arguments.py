"""The arguments and the state that the optimizers of both Keras have, and checks of arguments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.adaptive import FIRST_DAMPING
from kfac.canned import CannedKfac
from kfac.config import CurvatureConfig
from kfac.keras.for_estimator import for_estimator
from kfac.keras.layers import Approximations
from kfac.keras.saving import as_config, from_config, load_state, save_state
from kfac.keras.step import StepSettings
from kfac.keras.training import Training, changeable, current_graph
from kfac.keras.variable_store import VariableStore


def check_needed(adaptive: bool, learning_rate: Scalar | None, damping: Scalar | None) -> None:
    """Checks that the numbers are given that nothing computes.

    Raises:
      ValueError: One is missing, or there is a learning rate that would have no effect.
    """
    missing = [] if adaptive else [("learning_rate", learning_rate), ("damping", damping)]
    names = " and ".join(name for name, value in missing if value is None)
    if names:
        raise ValueError(
            f"Cannot set up K-FAC: {names} is missing. Pass numbers, such as "
            "Kfac(learning_rate=0.01, damping=0.001), or adaptive=True, which computes them."
        )
    if adaptive and learning_rate is not None:
        raise ValueError(
            f"Cannot set up K-FAC: learning_rate={learning_rate!r} does not go with adaptive=True, "
            "which computes it in each step. Leave out one of both."
        )


def loss_and_gradients(
    loss: Callable[[], Tensor] | Tensor, variables: Sequence[Variable], tape: Any
) -> tuple[Tensor, list[Tensor | None]]:
    """Returns a loss and its gradients.

    `loss` returns the loss, shape []; or it is the loss itself, with the tape that recorded it.

    Raises:
      RuntimeError: TensorFlow executes eagerly.
      ValueError: A Tensor was given without a tape.
    """
    current_graph()
    if callable(loss):
        with tf.GradientTape() as own:
            value = loss()
        return value, own.gradient(value, list(variables))
    if tape is None:
        raise ValueError(
            f"Cannot minimize {loss!r}: it is a Tensor, and there is no tape. Pass a function that "
            "returns the loss, or the tf.GradientTape that recorded it as tape."
        )
    return loss, tape.gradient(loss, list(variables))


class KfacOfBoth:
    """The arguments and the state of K-FAC, for both Keras alike.

    Each optimizer derives from it first, and then from the optimizer of its Keras.

    Attributes:
      training: Settings and state that do not depend on Keras.
      schedules: Keras' module of schedules.
    """

    training: Training
    schedules: Any
    name: str

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
            mean curvature, 1 if left out; otherwise it is needed.
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
        self._begin(0.0 if learning_rate is None else learning_rate, name)
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
                "damping": FIRST_DAMPING if damping is None else damping,
                "momentum": None if adaptive else momentum,
                "weight_decay": weight_decay,
                "norm_constraint": norm_constraint,
            },
        )
        self.training.make_numbers(self._make_number)

    def _begin(self, learning_rate: Scalar, name: str) -> None:
        """Calls the constructor of Keras' optimizer."""
        raise NotImplementedError

    def _make_number(self, name: str, value: float) -> Variable:
        """Makes a float variable."""
        raise NotImplementedError

    def _make_variable(
        self, name: str, first: Callable[[], Tensor], shape: tuple[int, ...], dtype: DType
    ) -> Variable:
        """Makes a variable of K-FAC."""
        raise NotImplementedError

    def _rate_config(self) -> Any:
        """Returns the learning rate as it now is, or the config of its schedule."""
        raise NotImplementedError

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
        return {
            "name": self.name,
            "learning_rate": None if is_adaptive else self._rate_config(),
            **as_config(self.training, self.schedules.serialize),
        }

    def for_estimator(self) -> CannedKfac:
        """Returns K-FAC for an Estimator; `replicate.model_to_estimator` calls it.

        Raises:
          ValueError: The settings are adaptive, or name approximations, unknown layers or
            accumulation.
        """
        return for_estimator(self.training, self.get_config(), self.schedules.deserialize)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Returns an optimizer made with the arguments that `get_config` returned."""
        deserialize = cls.schedules.deserialize
        return cls(**from_config(config, lambda value: deserialize(value, custom_objects)))
