"""Arguments and attributes that K-FAC does without, and arguments that do not exist.

They are those of Keras' base optimizer and of tensorflow/kfac's optimizers. Called by the
optimizers of `kfac.keras` and by the step.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kfac import arguments
from kfac.adaptive import adaptive
from kfac.arguments import names_of
from kfac.keras.compiled import LOSS_SCALE
from kfac.optimizer import OF_SUBCLASSES, KfacOptimizer
from kfac.periodic import PeriodicInvCovUpdateKfacOpt

_CLIPPING = (
    "a bound of the gradient does not bound its product with the inverse curvature. Pass "
    "norm_constraint, such as 1e-3, which bounds the squared Fisher norm of each step"
)
_AVERAGES = (
    "Kfac keeps no averages of the weights. Keep them in a callback, such as by "
    "tf.train.ExponentialMovingAverage(0.99).apply(model.trainable_variables) after each batch"
)
_XLA = "XLA compiles the model's whole step. Pass jit_compile=True to the model's compile"

_OF_KERAS: Mapping[str, str] = {
    "clipnorm": _CLIPPING,
    "clipvalue": _CLIPPING,
    "decay": "it is no longer an argument in Keras. Pass a schedule as learning_rate",
    "ema_momentum": _AVERAGES,
    "ema_overwrite_frequency": _AVERAGES,
    "global_clipnorm": _CLIPPING,
    "jit_compile": _XLA,
    "loss_scale_factor": LOSS_SCALE,
    "lr": "its name is learning_rate. Pass learning_rate",
    "use_ema": _AVERAGES,
}

_OF_GRAPH_MODE: Mapping[str, str] = {
    "decays": "it asks exclude_from_weight_decay. Call that method of the optimizer",
    "layer_collection": "it makes a collection for each graph, and finds layers and losses in it",
    "loss": "it finds the loss in the graph of the training step",
    "loss_fn": "it computes the loss after a step from the graph of the training step",
    "loss_weights": "it finds the weights of losses in the graph of the training step",
    "prev_train_batch": "it has the batch in the graph of the training step",
    "seed": "it draws targets by the number of the step, so that each run draws the same",
    "train_batch": "it has the batch in the graph of the training step",
    "use_weight_decay": "it decays weights where weight_decay is given. Pass weight_decay",
    "var_list": "it trains the variables that it is given gradients of",
    "weight_decay_coeff": "its name is weight_decay. Pass weight_decay",
}


def check_names(settings: Mapping[str, Any], own: Collection[str], is_adaptive: bool) -> None:
    """Checks the names of further arguments, which are those of the optimizer for graphs.

    `own` are the names of the arguments that `Kfac` has beside them.

    Raises:
      TypeError: An argument does not exist, or K-FAC does without it.
    """
    for name in settings:
        reason = {**_OF_KERAS, **_OF_GRAPH_MODE}.get(name)
        if reason is not None:
            raise TypeError(f"Kfac has no argument {name}: {reason}.")
    functions: list[Any] = [PeriodicInvCovUpdateKfacOpt, KfacOptimizer]
    functions += [adaptive] if is_adaptive else []
    accepted = names_of(*functions) - OF_SUBCLASSES - {*_OF_GRAPH_MODE}
    arguments.check_names("Kfac", settings, {*accepted, *own})


def refused(name: str) -> property:
    """Returns the property of an attribute of Keras' optimizers that can only be off."""

    def get(optimizer: Any) -> Any:
        return False if name in {"jit_compile", "use_ema"} else None

    def change(optimizer: Any, value: Any) -> None:
        if value:
            raise ValueError(f"Cannot set Kfac's {name} to {value!r}: {_OF_KERAS[name]}.")

    return property(get, change, doc=f"Always off: {_OF_KERAS[name]}.")
