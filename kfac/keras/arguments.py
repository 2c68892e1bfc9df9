"""The arguments and the state that the optimizers of both Keras have, and checks of arguments."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import DType, Scalar, Tensor, Variable
from kfac.canned import CannedKfac
from kfac.config import CurvatureConfig
from kfac.keras.compiled import LOSS_SCALE, check_not_wrapped
from kfac.keras.fisher_approx import Approximations
from kfac.keras.for_estimator import for_estimator
from kfac.keras.given_optimizer import check_given
from kfac.keras.refusals import check_names, refused
from kfac.keras.saving import as_config, from_config, load_state, load_without_names, save_state
from kfac.keras.step import StepSettings
from kfac.keras.training import Training, changeable, current_graph
from kfac.keras.variable_store import VariableStore
from kfac.settings import ADAPTIVE, KfacSettings, documents_settings
from kfac.tracebacks import methods_show_user_frames


def check_needed(adaptive: bool, learning_rate: Scalar | None, damping: Scalar | None) -> None:
    """Checks that the numbers are given that nothing computes.

    Raises:
      ValueError: One is missing, or there is a learning rate that would have no effect.
    """
    missing = [] if adaptive else [("learning_rate", learning_rate), ("damping", damping)]
    names = [name for name, value in missing if value is None]
    if names:
        raise ValueError(
            f"Cannot set up K-FAC: {' and '.join(names)} {'are' if len(names) > 1 else 'is'} "
            "missing. Pass numbers, such as "
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


@methods_show_user_frames
class KfacOfBoth:
    """The arguments and the state of K-FAC, for both Keras alike.

    Each optimizer derives from it first, and then from the optimizer of its Keras.

    Attributes:
      training: Settings and state that do not depend on Keras.
      optimizers: Keras' module of optimizers.
      given_optimizer: The optimizer that makes the step, or None if K-FAC does.
    """

    training: Training
    optimizers: Any
    given_optimizer: Any = None
    name: str
    variables: Any

    damping = changeable("damping", "λ: a variable, or its schedule. Numbers can be assigned.")
    momentum = changeable("momentum", "β: a variable, its schedule, or None.")
    weight_decay = changeable("weight_decay", "Decay over the learning rate: as `momentum`.")
    norm_constraint = changeable("norm_constraint", "Bound of a step: as `momentum`.")
    clipnorm = refused("clipnorm")
    clipvalue = refused("clipvalue")
    global_clipnorm = refused("global_clipnorm")
    use_ema = refused("use_ema")

    @documents_settings
    def __init__(  # noqa: D417
        self,
        learning_rate: Scalar | None = None,
        damping: Scalar | None = None,
        momentum: Scalar | None = KfacSettings.momentum,
        model: Any = None,
        fisher_approx: Approximations = None,
        adaptive: bool = False,
        *,
        weight_decay: Scalar | None = None,
        norm_constraint: Scalar | None = KfacSettings.norm_constraint,
        unknown_layers: str = "error",
        batch_size: int | None = None,
        gradient_accumulation_steps: int | None = None,
        config: CurvatureConfig | Mapping[str, Any] | None = None,
        optimizer: Any = None,
        graft: str | None = None,
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
          unknown_layers: The treatment of variables in no layer that K-FAC knows: "error", or
            "diagonal" for the diagonal of their Fisher matrix, with a warning.
          batch_size: Examples in the batch of one replica; None means the rows of what the model
            predicts. Needed if the model folds other axes into these rows.
          gradient_accumulation_steps: Batches that make one step together.
          config: Settings of all factors.
          optimizer: An optimizer of Keras that makes the step, of gradients times the inverse
            Fisher matrix, with its own learning rate; see `kfac.precondition`. None means that
            K-FAC does. `learning_rate`, `momentum`, `weight_decay` and `norm_constraint` must be
            left out then.
          graft: "adam" scales each layer's product to the length of a step of Adam, as
            `kfac.precondition` does. None leaves it. Only with `optimizer`.
          name: Name of the optimizer.
          **settings: Further arguments of `kfac.PeriodicInvCovUpdateKfacOpt`, such as
            `invert_every`, `cov_ema_decay` or `estimation_mode`: see `kfac.settings.KfacSettings`.

        Raises:
          ValueError: A number is missing or out of its range, or two arguments exclude each other.
          TypeError: An argument is unknown.
        """
        check_names(settings, _OWN, adaptive)
        has_rate = optimizer is None and not adaptive
        check_needed(adaptive, learning_rate if has_rate or adaptive else 1.0, damping)
        if graft is not None and optimizer is None:
            raise ValueError(
                f"Cannot set up K-FAC: graft={graft!r} without an optimizer. Pass the one that is "
                "to make the step, such as optimizer=keras.optimizers.SGD(1e-3)."
            )
        self._begin(0.0 if learning_rate is None else learning_rate, name)
        numbers = {
            "momentum": momentum if has_rate else None,
            "weight_decay": weight_decay,
            "norm_constraint": norm_constraint,
        }
        if optimizer is not None:
            self.given_optimizer = _made(self.optimizers, optimizer)
            given = {**numbers, "learning_rate": learning_rate, "momentum": momentum}
            check_given(self.given_optimizer, adaptive, given, settings)
        self.training = Training(
            StepSettings(
                adaptive,
                fisher_approx,
                unknown_layers,
                batch_size,
                gradient_accumulation_steps,
                CurvatureConfig(**config) if isinstance(config, Mapping) else config,
                settings,
                optimizer is not None,
                graft,
            ),
            VariableStore(self._make_variable),
            model,
            learning_rate if has_rate else None,
            {"damping": ADAPTIVE.damping if damping is None else damping, **numbers},
            None if optimizer is None else self._apply_given,
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

    def _apply_given(self, gradients: Sequence[Any], variables: Sequence[Variable]) -> None:
        """Makes the step of the given optimizer; the gradients are the same in all replicas."""
        raise NotImplementedError

    def _rate_config(self) -> Any:
        """Returns the learning rate as it now is, or the config of its schedule."""
        raise NotImplementedError

    # Attributes and methods of Keras' optimizers.

    @property
    def learning_rate(self) -> Any:
        """α: a variable, or what its schedule says now. Numbers and schedules can be assigned.

        With a given optimizer it is that optimizer's.
        """
        if self.given_optimizer is not None:
            return self.given_optimizer.learning_rate
        base: Any = super()
        return base.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if self.training.settings.adaptive:
            raise ValueError(
                f"Cannot set Kfac's learning_rate to {value!r}: with adaptive=True each step "
                "computes it. Leave out adaptive, and pass learning_rate and damping."
            )
        if self.given_optimizer is not None:
            self.given_optimizer.learning_rate = value
            return
        base: Any = super(KfacOfBoth, type(self))
        base.learning_rate.fset(self, value)

    @property
    def gradient_accumulation_steps(self) -> int | None:
        """Batches that make one step together, or None."""
        return self.training.settings.accumulation_steps if "training" in vars(self) else None

    @gradient_accumulation_steps.setter
    def gradient_accumulation_steps(self, value: int | None) -> None:
        if value != self.gradient_accumulation_steps:
            raise ValueError(
                f"Cannot set Kfac's gradient_accumulation_steps to {value!r}: it was made with "
                f"{self.gradient_accumulation_steps!r}. Pass it when the optimizer is made."
            )

    @property
    def loss_scale_factor(self) -> None:
        """Always None: the curvature is that of the loss as it is."""
        # Keras' LossScaleOptimizer sets it to None, and before that looks if it is.
        check_not_wrapped(self)

    @loss_scale_factor.setter
    def loss_scale_factor(self, value: float | None) -> None:
        if value:
            raise ValueError(f"Cannot set Kfac's loss_scale_factor to {value!r}: {LOSS_SCALE}.")

    def exclude_from_weight_decay(
        self, var_list: Sequence[Variable] | None = None, var_names: Sequence[str] | None = None
    ) -> None:
        """Excludes variables from weight decay; a further call forgets those of the one before.

        As in Keras, this is not saved: call it for a loaded optimizer, too.

        Args:
          var_list: Variables that do not decay.
          var_names: Regular expressions. Variables with one of them in their name do not decay,
            such as ["bias", "gamma", "beta"].

        Raises:
          ValueError: A step was made before, or a name is no regular expression.
          TypeError: The names are one string.
        """
        self.training.trained.exclude(var_list or (), var_names or ())

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets all variables of the optimizer, in the order of `variables`.

        Keras loads .h5 files by it, before there are statistics: it then sets the numbers, such as
        the learning rate, and warns that the rest is lost.

        Raises:
          ValueError: There are fewer or more of them, such as before the first step, which makes
            the statistics, or one has another shape.
        """
        if load_without_names(self, weights):
            return
        if len(weights) != len(self.variables):
            raise ValueError(
                f"Cannot set the weights of Kfac to {len(weights)} arrays: it has "
                f"{len(self.variables)} variables{'' if self.training.store.variables else ' yet'}."
                " The first step makes its statistics. Make one before, or save and load with "
                "model.save, load_model or tf.train.Checkpoint."
            )
        base: Any = super()
        base.set_weights(weights)

    def update_step(self, gradient: Tensor, variable: Variable, *arguments: Any) -> None:
        """Is not for use: K-FAC changes all variables of a layer together.

        Raises:
          NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"Kfac.update_step cannot change {variable.name} alone: K-FAC makes a step of all "
            "variables. Call minimize, or apply_gradients with the gradients of all of them."
        )

    # State.

    def save_own_variables(self, store: Any) -> None:
        """Writes all state into a store, by name."""
        save_state(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Sets all state from a store, now or when the state is made."""
        load_state(self, store)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, with numbers as they now are; without the model."""
        given, settings = self.given_optimizer, self.training.settings
        has_rate = given is None and not settings.adaptive
        of_given = {"optimizer": self.optimizers.serialize(given), "graft": settings.graft}
        return {
            "name": self.name,
            "learning_rate": self._rate_config() if has_rate else None,
            **as_config(self.training, self.optimizers.schedules.serialize),
            **({} if given is None else of_given),
        }

    def for_estimator(self) -> CannedKfac:
        """Returns K-FAC for an Estimator; `replicate.model_to_estimator` calls it.

        Raises:
          ValueError: The settings are adaptive, or name approximations, unknown layers or
            accumulation.
        """
        return for_estimator(
            self.training, self.get_config(), self.optimizers.schedules.deserialize
        )

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Returns an optimizer made with the arguments that `get_config` returned."""
        optimizers, given = cls.optimizers, config.get("optimizer")
        deserialize = optimizers.schedules.deserialize
        arguments = from_config(config, lambda value: deserialize(value, custom_objects))
        if isinstance(given, Mapping):
            arguments["optimizer"] = optimizers.deserialize(dict(given), custom_objects)
        return cls(**arguments)


def _made(optimizers: Any, given: Any) -> Any:
    """Returns the optimizer of Keras that was given, or named.

    Raises:
      TypeError: It is none.
    """
    made = optimizers.get(given) if isinstance(given, str) else given
    if not isinstance(made, optimizers.Optimizer) or isinstance(made, KfacOfBoth):
        raise TypeError(
            f"Kfac was given optimizer={given!r}. Accepted are an optimizer of the same Keras "
            "other than K-FAC, such as keras.optimizers.Adam(1e-3), and its name. For graph mode "
            "there is kfac.precondition."
        )
    return made


_OWN = tuple(inspect.signature(KfacOfBoth.__init__).parameters)[1:-1]
"""Names of the arguments of `Kfac` that are not those of the optimizer for graphs."""
