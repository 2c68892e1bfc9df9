"""The layers of a model by their parameters, with their factors, and the rules of registration.

Knows blocks, factors and linked parameters, but no kinds of layers:
`kfac.registration.dense_layers` and `kfac.registration.convolutions` make the blocks and add them
here. Owned by the layer collection.
"""

import numbers
import types
from collections.abc import Callable, Mapping
from typing import Any, final

import tensorflow as tf

from kfac._types import Parameters, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.registration.approximations import ACCEPTED, check_approximation
from kfac.registration.loss_table import NONE_YET
from kfac.registration.scope import RegistrationScope, is_reuse
from kfac.variables import check_not_partitioned, name_of

v1 = tf.compat.v1


@final
class LayerTable:
    """The layers of one model, over all its towers.

    `defaults` has the approximations of layers that are registered without one, by kind of layer:
    the keys of `ACCEPTED`.
    """

    def __init__(self, scope: RegistrationScope, config: CurvatureConfig | None = None) -> None:
        self.scope = scope
        self.config = config or CurvatureConfig()
        self.defaults = {kind: names[0] for kind, names in ACCEPTED.items()}
        self._blocks: dict[Parameters, FisherBlock] = {}
        self._factors: dict[tuple[Callable[..., FisherFactor], Any], FisherFactor] = {}
        self._linked: dict[frozenset[Variable], str | None] = {}
        self._uses: dict[Parameters, list[float]] = {}

    # What is registered.

    @property
    def blocks(self) -> Mapping[Parameters, FisherBlock]:
        """The blocks by their parameter or tuple of parameters, in order of registration."""
        return types.MappingProxyType(self._blocks)

    @property
    def factors(self) -> Mapping[tuple[Callable[..., FisherFactor], Any], FisherFactor]:
        """The factors by (class, arguments), in the order in which they were made."""
        return types.MappingProxyType(self._factors)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All parameters of all layers, in order of registration."""
        return tuple(param for key in self._blocks for param in as_tuple(key))

    def registered_uses(self, params: Parameters) -> float:
        """Returns the uses that a layer's parameters, a key of `blocks`, may have in all towers."""
        return sum(self._uses[params])

    @property
    def linked_parameters(self) -> Mapping[frozenset[Variable], str | None]:
        """The groups of linked parameters, and the approximation of each, or None."""
        return types.MappingProxyType(self._linked)

    def define_linked_parameters(
        self, params: Parameters, approximation: str | None = None
    ) -> None:
        """Links parameters that form one layer, optionally with its approximation.

        A parameter linked alone is a layer without a bias or, if it matches none, generic.

        Args:
          params: One parameter, or several.
          approximation: Approximation of the layer if it is registered without one.

        Raises:
          ValueError: A parameter is in another group, or registered in a layer with other
            parameters than exactly these. In both cases nothing is kept.
          TypeError: A parameter is no variable, or is partitioned.
        """
        group = as_tuple(as_key(params))
        refs = {param.ref() for param in group}
        known = [*self._linked, *(as_tuple(key) for key in self._blocks)]
        for other in known:
            others = {param.ref() for param in other}
            is_group = isinstance(other, frozenset)
            if refs & others and (is_group or refs != others):
                raise ValueError(
                    f"Cannot link parameters {parameter_names(group)} in {self.scope.name}: some "
                    f"of them already belong to {parameter_names(tuple(other))}. Link each "
                    "parameter once, with exactly the parameters of its layer."
                )
        self._linked[frozenset(group)] = approximation

    def set_default(self, kind: str, approx: str) -> None:
        """Sets the approximation that a kind of layer has by default.

        Raises:
          ValueError: The kind of layer does not have the approximation.
        """
        where = f"set the default approximation of {kind} layers"
        self.defaults[kind] = check_approximation(kind, approx, where)

    def resolve_approximation(self, kind: str, approx: str | None, params: Parameters) -> str:
        """Returns the given approximation, or else the linked one, or else the default.

        Raises:
          ValueError: The kind of layer does not have the approximation.
        """
        refs = {param.ref() for param in as_tuple(params)}
        if approx is None:
            of_group = {frozenset(p.ref() for p in group): a for group, a in self._linked.items()}
            approx = of_group.get(frozenset(refs)) or self.defaults[kind]
        return check_approximation(kind, approx, f"register layer {name_of(as_tuple(params)[0])!r}")

    # Registration.

    def add(
        self,
        block: FisherBlock,
        inputs: Any,
        outputs: Any,
        reuse: bool | str,
        uses: float = 1,
        *,
        takes_numbers: bool = False,
    ) -> None:
        """Adds a block without towers, or a tower to an equal registered block, after all checks.

        Tensors that enter and leave the layer are structured as the block needs them. `uses` is the
        number of uses that each of its parameters may have in the tower's graph. Ints are accepted
        in place of tensors if the block `takes_numbers`, such as a batch size.

        Raises:
          ValueError: `reuse` does not fit, a parameter belongs to another layer, a tensor is of
            another graph, or registration is over.
          TypeError: A tensor is something else.
        """
        self.scope.check_open(f"layer {block.name!r}")
        tensors = tensors_of(block.name, inputs, outputs, takes_numbers)
        self.scope.check_graph(f"layer {block.name!r}", *tensors)
        existing = self._blocks.get(block.params)
        if is_reuse(reuse, existing is not None):
            self._check_same_layer(block, existing)
        else:
            self._check_new_layer(block, existing)
        registered = existing or self._blocks.setdefault(block.params, block)
        registered.register_additional_tower(inputs, outputs)
        self._uses.setdefault(block.params, []).append(uses)

    def remove_last_tower(self, params: Parameters) -> None:
        """Removes the last tower of a layer; removes the layer if it was the only tower."""
        key = as_key(params)
        self._uses[key].pop()
        if self._uses[key]:
            self._blocks[key].remove_last_tower()
        else:
            del self._blocks[key]

    def _check_same_layer(self, block: FisherBlock, existing: FisherBlock | None) -> None:
        if existing is None:
            known = ", ".join(parameter_names(key) for key in self._blocks) or NONE_YET
            raise ValueError(
                f"Cannot add a tower to layer {block.name!r} of {self.scope.name}: reuse is "
                "True, and no layer was registered with exactly the parameters "
                f"{parameter_names(block.params)}. Registered are: {known}. Register it in the "
                "first tower with reuse=False, with the same parameters."
            )
        if type(existing) is not type(block) or existing.settings != block.settings:
            raise ValueError(
                f"Cannot add a tower to layer {block.name!r} of {self.scope.name}: it was "
                f"registered as {type(existing).__name__}{existing.settings}, now as "
                f"{type(block).__name__}{block.settings}. All towers must register the same layer."
            )

    def _check_new_layer(self, block: FisherBlock, existing: FisherBlock | None) -> None:
        if existing is not None:
            raise ValueError(
                f"Cannot register layer {block.name!r}: it is already in LayerCollection "
                f"{self.scope.name!r}. Register each layer once per tower; towers after the first "
                "need reuse=True, or a variable scope that reuses."
            )
        taken = {p.ref() for p in self.variables}
        shared = [name_of(p) for p in as_tuple(block.params) if p.ref() in taken]
        if shared:
            raise ValueError(
                f"Cannot register layer {block.name!r} with parameters "
                f"{parameter_names(block.params)}: {', '.join(shared)} was already registered with "
                f"another layer of {self.scope.name}. A parameter can belong to one layer only."
            )

    # What blocks and estimators need.

    def make_or_get_factor(
        self, cls: Callable[..., FisherFactor], args: tuple[Any, ...], name: str
    ) -> FisherFactor:
        """Returns the factor with this class and these arguments, made when first asked for.

        Args:
          cls: Class of the factor.
          args: Arguments of the factor, hashable; equal arguments share one factor.
          name: Name of a new factor; a shared one keeps the name of its first layer.

        Raises:
          TypeError: The arguments are not hashable.
        """
        key = (cls, _hashable(args))
        if key not in self._factors:
            self._factors[key] = cls(*args, name=name, config=self.config)
        return self._factors[key]


def _hashable(args: Any) -> Any:
    """Returns arguments with a reference in place of each Tensor of a function's graph.

    Such Tensors are no keys. They occur in any collection whose curvature is built in a branch of
    `tf.cond` or the body of a loop, as these are functions.
    """
    if isinstance(args, tuple):
        return tuple(_hashable(arg) for arg in args)
    in_function = isinstance(args, tf.Tensor) and args.graph.building_function
    return args.ref() if in_function else args


def as_key(params: Parameters) -> Parameters:
    """Returns parameters in the form of a key: lists become tuples.

    Raises:
      TypeError: A parameter is no variable, or is partitioned.
      ValueError: There is no parameter.
    """
    if not as_tuple(params):
        raise ValueError(
            f"Cannot register a layer for K-FAC with the parameters {params!r}: there are none. "
            "Accepted are a variable, and a tuple of variables."
        )
    check_not_partitioned("register a layer", as_tuple(params))
    return tuple(params) if isinstance(params, (tuple, list)) else params


def parameter_names(params: Parameters) -> str:
    """Returns the names of parameters, for messages."""
    return "(" + ", ".join(name_of(param) for param in as_tuple(params)) + ")"


def tensors_of(layer: str, inputs: Any, outputs: Any, takes_numbers: bool = False) -> list[Tensor]:
    """Returns the tensors among a layer's registered inputs and outputs.

    Raises:
      TypeError: Something else is among them; ints are accepted if the layer takes numbers.
    """
    everything = tf.nest.flatten([inputs, outputs])
    tensors = [x for x in everything if tf.is_tensor(x)]
    for other in everything:
        if tf.is_tensor(other) or (takes_numbers and isinstance(other, numbers.Integral)):
            continue
        raise TypeError(
            f"Cannot register layer {layer!r} with {type(other).__name__}: {other!r}. "
            "Accepted are Tensors of the model. Use tf.constant for values that do not change."
        )
    return tensors
