"""K-FAC as the `optimizer` of canned estimators, such as `replicate.DNNClassifier`.

An estimator whose optimizer function has a method `register` calls that method in each tower, with
a record of the model, and then the function itself.
"""

# Of this record it knows only the attributes that `kfac.protocols.CannedModel` names.

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Scalar, Variable
from kfac.adaptive import adaptive as kfac_adaptive
from kfac.arguments import check_choice
from kfac.config import CurvatureConfig
from kfac.layer_collection import LayerCollection, graph_layer_collection
from kfac.periodic import PeriodicInvCovUpdateKfacOpt
from kfac.protocols import CannedLayer, CannedLoss, CannedModel
from kfac.settings import CANNED, documents_settings
from kfac.tracebacks import shows_user_frames
from kfac.variables import name_of

MEAN = ("sum_over_batch_size", "weighted_sum_over_batch_size", "auto")
"""Reductions that divide the sum by the number of examples."""
MEAN_OF_EQUAL = ("weighted_mean", "weighted_sum_by_nonzero_weights")
"""Reductions that divide the sum by the number of examples if examples have no weights."""
ESTIMATION_MODES = ("gradients", "curvature_prop", "curvature_prop_GGN", "exact", "exact_GGN")
"""Estimation modes that need no labels."""
MAX_EXACT = 10
"""Largest number of logits for which curvature is exact by default."""


@shows_user_frames
@documents_settings
def for_canned(  # noqa: D417
    learning_rate: Scalar | None = CANNED.learning_rate,
    damping: Scalar | None = None,
    *,
    adaptive: bool = False,
    momentum: Scalar | None = CANNED.momentum,
    momentum_type: str = CANNED.momentum_type,
    norm_constraint: Scalar | None = CANNED.norm_constraint,
    invert_every: Scalar = CANNED.invert_every,
    cov_update_every: int = CANNED.cov_update_every,
    num_burnin_steps: int = CANNED.num_burnin_steps,
    spread_inverses: bool = CANNED.spread_inverses,
    spread_first_inverses: bool = CANNED.spread_first_inverses,
    inverse_delay: int = CANNED.inverse_delay,
    cov_ema_decay: Scalar = CANNED.cov_ema_decay,
    estimation_mode: str | None = None,
    use_weight_decay: bool = CANNED.use_weight_decay,
    weight_decay_coeff: Scalar = CANNED.weight_decay_coeff,
    config: CurvatureConfig | None = None,
) -> "CannedKfac":
    """Returns an `optimizer` for a canned estimator that trains it with K-FAC.

    Layers and losses are registered in `graph_layer_collection()`. Dense layers, and look-ups of
    one id per example, are Kronecker-factored. Batch normalization is a scale and shift. Tables
    from which an example looks up several rows are generic.

    The defaults did well on the problems of `benchmarks.canned_kfac`. There learning rates of 0.03,
    0.1 and 0.3 needed about equally many steps, and averages of every tenth step as many as those
    of every step, in less time. The guide to K-FAC says when it is faster than Adam.

    The arguments are settings, described in `kfac.settings.KfacSettings`, with the defaults of
    `kfac.settings.CANNED`. Here there is more to say of these:

    Args:
      learning_rate: α > 0: a number, or a function without arguments that returns a Tensor and is
        called in the graph. It must be None with the "qmodel" types.
      damping: λ > 0: a number, or a function as for `learning_rate`. None means 0.1. With
        `adaptive` it is the first λ in multiples of the mean curvature, and None means 1.
      adaptive: True to choose learning rate, momentum and damping in each step, as `kfac.adaptive`
        does: each step that raises the loss of its batch is undone. `learning_rate`, `momentum`,
        `momentum_type` and `norm_constraint` must be left out then.
      momentum: β ≥ 0: a number, or a function as for `learning_rate`. None means no momentum; it
        must be None with "qmodel".
      estimation_mode: One of "gradients", "curvature_prop", "exact", "curvature_prop_GGN" and
        "exact_GGN". None means "exact" for up to 10 logits of all heads together, and "gradients"
        for more. "exact" costs one backward pass per logit. On N towers "exact" trains as on one
        tower; the other modes draw differently.
      config: Settings of the layer collection; None means the defaults.

    Raises:
      ValueError: A number is out of its range, or two arguments exclude each other.
    """
    if estimation_mode is not None:
        check_choice("estimation_mode", estimation_mode, ESTIMATION_MODES)
    chosen: dict[str, Any] = {
        "learning_rate": learning_rate,
        "momentum": momentum,
        "momentum_type": momentum_type,
        "norm_constraint": norm_constraint,
    }
    if adaptive:
        _check_left_out(chosen)
        chosen = {} if damping is None else {"damping": damping}
    else:
        chosen["damping"] = CANNED.damping if damping is None else damping
    arguments = {
        **chosen,
        "invert_every": invert_every,
        "cov_update_every": cov_update_every,
        "num_burnin_steps": num_burnin_steps,
        "spread_inverses": spread_inverses,
        "spread_first_inverses": spread_first_inverses,
        "inverse_delay": inverse_delay,
        "cov_ema_decay": cov_ema_decay,
        "use_weight_decay": use_weight_decay,
        "weight_decay_coeff": weight_decay_coeff,
    }
    canned = CannedKfac(arguments, estimation_mode, config, adaptive)
    with tf.Graph().as_default():  # Checks the arguments, then drops the optimizer.
        canned.make_optimizer(LayerCollection())
    return canned


def _check_left_out(chosen: Mapping[str, Any]) -> None:
    """Checks that no argument is given that `adaptive` excludes."""
    for name, value in chosen.items():
        default = getattr(CANNED, name)
        if value is not None and not (type(value) is type(default) and value == default):
            raise ValueError(
                f"Cannot set up K-FAC for a canned estimator: {name}={value!r} does not go with "
                "adaptive=True, which chooses learning rate, momentum and damping in each step. "
                f"Leave out {name} or adaptive."
            )


@typing.final
@dataclasses.dataclass(frozen=True)
class CannedKfac:
    """K-FAC for the graphs of canned estimators; made by `for_canned`. Keeps no graph.

    Attributes:
      arguments: Arguments of `PeriodicInvCovUpdateKfacOpt`.
      estimation_mode: One of `ESTIMATION_MODES`, or None to choose by the number of logits.
      config: Settings of the layer collection, or None.
      adaptive: True if `arguments` are those of `kfac.adaptive`.
    """

    arguments: Mapping[str, Any]
    estimation_mode: str | None
    config: CurvatureConfig | None
    adaptive: bool = False

    def __str__(self) -> str:
        """Returns the sentence that Keras' error shows when a model is compiled with it."""
        return (
            "the result of kfac.for_canned, which runs in graph mode and cannot be given to a "
            "Keras model's compile: give that kfac.keras.Kfac(learning_rate, damping), or pass "
            "this as optimizer to a canned estimator or to replicate.model_to_estimator."
        )

    def register(self, model: CannedModel) -> None:
        """Registers losses and layers of the current tower.

        Args:
          model: The record of the model.

        Raises:
          ValueError: The losses are not known, are not averaged over the examples, or another part
            of the model is registered already.
        """
        losses = _checked_losses(model)
        layers = graph_layer_collection(config=self.config)
        _check_one_part(layers, model.variables)
        for loss in losses:
            _register_loss(layers, loss)
        done = [_register_layer(layers, layer) for layer in model.layers]
        rest = _without(model.variables, [variable for params in done for variable in params])
        if rest:
            layers.auto_register_layers(rest)

    def __call__(self) -> PeriodicInvCovUpdateKfacOpt:
        """Returns the optimizer of the current graph, whose model has been registered.

        Raises:
          ValueError: No model has been registered in the graph.
        """
        layers = graph_layer_collection(config=self.config)
        if not layers.losses:
            raise ValueError(
                "Cannot make the K-FAC optimizer: no model is registered in this graph. Pass what "
                "kfac.for_canned returned, itself, as the optimizer of a canned estimator: the "
                "estimator calls its method register first, which a function around it lacks."
            )
        mode = self.estimation_mode or ("exact" if _outputs(layers) <= MAX_EXACT else "gradients")
        return self.make_optimizer(layers, estimation_mode=mode)

    def make_optimizer(
        self, layers: LayerCollection, **settings: Any
    ) -> PeriodicInvCovUpdateKfacOpt:
        """Returns an optimizer of a layer collection, with the arguments and further settings.

        Raises:
          ValueError: As in `for_canned`.
        """
        make = kfac_adaptive if self.adaptive else PeriodicInvCovUpdateKfacOpt
        return make(layer_collection=layers, **self.arguments, **settings)


def _checked_losses(model: CannedModel) -> Sequence[CannedLoss]:
    """Returns the losses; checks that they are known, and averaged over the examples."""
    if model.losses is None:
        raise ValueError(
            f"Cannot register the loss of {model.head} for K-FAC: it is known for "
            f"{model.known_losses}. Register by hand in a model_fn of your own: layers = "
            "kfac.graph_layer_collection(), layers.register_..._predictive_distribution(logits, "
            "name='loss'), layers.auto_register_layers(), then train with "
            "kfac.PeriodicInvCovUpdateKfacOpt(..., layer_collection=layers), which "
            "head.create_estimator_spec takes too. Or take another optimizer."
        )
    reduction = model.loss_reduction
    weighted = any(loss.weights.shape.rank != 0 for loss in model.losses)
    if reduction in MEAN or (reduction in MEAN_OF_EQUAL and not weighted):
        return model.losses
    raise ValueError(
        f"Cannot train {model.head} with K-FAC: its loss_reduction is {reduction!r}"
        f"{', with weights' if reduction in MEAN_OF_EQUAL else ''}. K-FAC needs the mean over all "
        "examples, with which gradient and curvature have the same scale. Pass "
        "loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE, the default of the estimators of "
        "`replicate`."
    )


def _check_one_part(layers: LayerCollection, variables: Sequence[Variable]) -> None:
    """Checks that no other variables are registered, such as those of another part of a model."""
    others = _without(layers.registered_variables, variables)
    if others:
        names = ", ".join(repr(name_of(variable)) for variable in others)
        raise ValueError(
            f"Cannot register {len(variables)} variables for K-FAC: {names} are registered in "
            "this graph already, by another part of the model or by hand. One K-FAC optimizer "
            "trains one part. Pass another optimizer for the other, such as "
            "linear_optimizer='Ftrl'."
        )


def _register_loss(layers: LayerCollection, loss: CannedLoss) -> None:
    """Registers one loss of the current tower."""
    name = loss.name or "head"
    weights = None if loss.weights.shape.rank == 0 else loss.weights
    if loss.kind == "categorical":
        if weights is not None:
            weights = tf.reshape(weights, tf.shape(loss.logits)[:-1])
            weights.set_shape(loss.logits.shape[:-1])
        layers.register_categorical_predictive_distribution(
            loss.logits, name=name, coeff=loss.coefficient, weights=weights
        )
        return
    register = {
        "multi_bernoulli": layers.register_multi_bernoulli_predictive_distribution,
        "squared_error": layers.register_squared_error_loss,
    }[loss.kind]
    if weights is not None:
        weights = tf.broadcast_to(weights, tf.shape(loss.logits))
        weights.set_shape(loss.logits.shape)
    register(loss.logits, name=name, coeff=loss.coefficient, weights=weights)


def _register_layer(layers: LayerCollection, layer: CannedLayer) -> tuple[Variable, ...]:
    """Registers one layer of the current tower, and returns its variables."""
    params = (layer.kernel,) if layer.bias is None else (layer.kernel, layer.bias)
    layers.register_fully_connected(
        params if len(params) > 1 else layer.kernel,
        layer.inputs,
        layer.outputs,
        dense_inputs=layer.kind == "dense",
    )
    return params


def _without(variables: Sequence[Variable], others: Sequence[Variable]) -> list[Variable]:
    """Returns the variables that are not among others; variables compare by value."""
    left_out = {id(variable) for variable in others}
    return [variable for variable in variables if id(variable) not in left_out]


def _outputs(layers: LayerCollection) -> int:
    """Returns the number of logits of all losses."""
    return sum(int(towers[0].inputs.shape[-1]) for towers in layers.towers_by_loss)
