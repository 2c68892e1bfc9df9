"""The approximation that `fisher_approx` asks for, for each layer of a Keras model.

Which layers K-FAC knows stands in `kfac.graph_search.known_layers`.

A layer is found by its name in the paths of its variables, or by its class in the model. Called by
the step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Scalar, Variable
from kfac.arguments import check_choice
from kfac.fisher_blocks.base import as_tuple
from kfac.keras.trained_variables import components
from kfac.layer_collection import LayerCollection
from kfac.registration.approximations import ACCEPTED
from kfac.variables import name_of

Approximations = Mapping[str | type, str] | str | None
"""Approximations by a layer's name or class; or one for all layers that have it."""

PLAIN = "plain"
"""The choice, beside the approximations, of no curvature: the given optimizer gets gradients."""

UNKNOWN_LAYERS = ("error", "diagonal")

_BIAS_OF = {"beta": "gamma", "bias": "kernel"}
"""Names of variables that are in one K-FAC layer with another of the same Keras layer."""


def register_layers(
    layers: LayerCollection,
    variables: Sequence[Variable],
    approximations: Approximations,
    unknown: str,
    batch_size: Scalar | None,
    model: Any,
) -> None:
    """Registers the layers of all variables, which are the trained ones, as the graph sees them.

    The collection has the losses. `unknown` is "error" or "diagonal": the treatment of variables in
    no known layer. Vectors, such as the bias of a depthwise convolution, always have the diagonal.
    The model may be None if it is not known.

    Raises:
      ValueError: A name or class has no layer, a layer is not known and `unknown` is "error", or as
        in `LayerCollection.auto_register_layers`.
    """
    plain: set[Any] = set()
    if isinstance(approximations, str):
        _set_defaults(layers, approximations)
    else:
        for key, approximation in (approximations or {}).items():
            for group in _groups(key, variables, model):
                if approximation == PLAIN:
                    plain.update(variable.ref() for variable in group)
                else:
                    layers.define_linked_parameters(group, approximation)
    preconditioned = [variable for variable in variables if variable.ref() not in plain]
    layers.auto_register_layers(preconditioned, batch_size, finds_positions=True)
    lost = [d for d in layers.decisions if not d.is_expected and not _is_vector(d.params)]
    if lost and unknown == "error":
        named = "; ".join(f"{name_of(as_tuple(d.params)[0])} ({d.text})" for d in lost)
        raise ValueError(
            f"K-FAC knows no layer of these variables: {named}. Pass unknown_layers='diagonal' to "
            "train them with the diagonal of their Fisher matrix, or train them with another "
            "optimizer."
        )


def _is_vector(params: Any) -> bool:
    """Returns True for a single bias or scale; the diagonal of its Fisher matrix will do."""
    return not isinstance(params, tuple) and len(params.shape) <= 1


def check_approximations(
    approximations: Approximations, unknown: str, may_be_plain: bool = False
) -> None:
    """Checks arguments before there is a graph.

    `may_be_plain` is true if another optimizer makes the step, which can train layers without
    curvature.

    Raises:
      ValueError: An approximation, or `unknown`, is none of the accepted ones.
      TypeError: A key is neither a layer's name nor a class.
    """
    check_choice("unknown_layers", unknown, UNKNOWN_LAYERS)
    accepted = sorted({name for names in ACCEPTED.values() for name in names})
    if isinstance(approximations, str):
        check_choice("fisher_approx", approximations, accepted)
        return
    for key, approximation in (approximations or {}).items():
        if not isinstance(key, (str, type)):
            raise TypeError(
                f"Cannot set up K-FAC: fisher_approx has the key {key!r}. Accepted are names of "
                "layers, and classes of layers."
            )
        choices = [*accepted, PLAIN] if may_be_plain else accepted
        check_choice(f"fisher_approx[{key!r}]", approximation, choices)


def _set_defaults(layers: LayerCollection, approximation: str) -> None:
    for kind, accepted in ACCEPTED.items():
        if approximation in accepted:
            layers.layer_table.set_default(kind, approximation)


def _groups(key: str | type, variables: Sequence[Variable], model: Any) -> list[list[Variable]]:
    """Returns the variables of the layers of a name or class, grouped as K-FAC's layers."""
    is_name = isinstance(key, str)
    chosen = [v for v in variables if is_name and key in name_of(v).split("/")[:-1]]
    if not chosen and not (is_name and model is None):
        chosen = _of_class(key, variables, model)
    if not chosen:
        names = ", ".join(sorted({name_of(v).rpartition("/")[0] for v in variables}))
        raise ValueError(
            f"Cannot set up K-FAC: fisher_approx names {key!r}, and no layer with trained "
            f"variables has that {'name' if is_name else 'class'}. The layers are "
            f"{names}."
        )
    return list(_grouped(chosen).values())


def _of_class(key: str | type, variables: Sequence[Variable], model: Any) -> list[Variable]:
    if model is None:
        raise ValueError(
            f"Cannot set up K-FAC: fisher_approx names the class {key}, and the model is "
            "not known here. Pass it as model, or name the layers."
        )
    strategy = tf.distribute.get_strategy()
    inner = getattr(model, "_flatten_layers", None)
    layers = [model, *(inner(include_self=False, recursive=True) if inner else ())]
    handles = {
        id(components(strategy, variable)[0].handle)
        for layer in layers
        if _is_a(layer, key)
        for variable in layer.trainable_variables
    }
    return [v for v in variables if id(v.components[0].handle) in handles]


def _is_a(layer: Any, key: str | type) -> bool:
    return type(layer).__name__ == key if isinstance(key, str) else isinstance(layer, key)


def _grouped(variables: Sequence[Variable]) -> dict[tuple[str, str], list[Variable]]:
    """Returns variables by K-FAC layer: a bias goes with the kernel of its Keras layer."""
    paths = {name_of(v): v for v in variables}
    groups: dict[tuple[str, str], list[Variable]] = {}
    for path, variable in paths.items():
        layer, _, name = path.rpartition("/")
        partner = _BIAS_OF.get(name, name)
        if f"{layer}/{partner}" not in paths:
            pointwise = "pointwise_kernel"
            partner = pointwise if f"{layer}/{pointwise}" in paths else name
        groups.setdefault((layer, partner), []).append(variable)
    return groups
