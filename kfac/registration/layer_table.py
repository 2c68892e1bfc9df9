"""The layers of a model by their parameters: what is kept of them, and the rules of registration.

Knows blocks, factors and linked parameters, not what kinds of layers there are: those are in
`kfac.registration.dense_layers` and `kfac.registration.convolutions`, which extend it.
"""

import numbers
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Graph, Parameters, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.registration.approximations import DefaultApproximations, check_approximation
from kfac.registration.loss_table import NONE_YET
from kfac.registration.losses import LossRegistration
from kfac.registration.reuse import is_reuse
from kfac.registration.subgraph import SubGraph

v1 = tf.compat.v1


class LayerTable(LossRegistration, DefaultApproximations):
    """The layers of one model, over all its towers.

    Attributes:
      config: Settings of all factors and blocks.
    """

    def __init__(self, graph: Graph, name: str, config: CurvatureConfig | None) -> None:
        """Starts without layers.

        Args:
          graph: The graph of the model; None means the current default graph.
          name: Used in messages only.
          config: Settings of all factors and blocks; None means the defaults.
        """
        super().__init__(graph, name)
        DefaultApproximations.__init__(self)
        self.config = config or CurvatureConfig()
        self._blocks: dict[Parameters, FisherBlock] = {}
        self._factors: dict[tuple[Callable[..., FisherFactor], Any], FisherFactor] = {}
        self._linked: dict[frozenset[Variable], str | None] = {}
        self._uses: dict[Parameters, list[float]] = {}
        self._final_subgraph: SubGraph | None = None

    # What is registered.

    @property
    def fisher_blocks(self) -> Mapping[Parameters, FisherBlock]:
        """The blocks by their parameter or tuple of parameters, in order of registration."""
        return types.MappingProxyType(self._blocks)

    @property
    def fisher_factors(self) -> Mapping[tuple[Callable[..., FisherFactor], Any], FisherFactor]:
        """The factors by (class, arguments), in the order in which they were made."""
        return types.MappingProxyType(self._factors)

    def get_blocks(self) -> tuple[FisherBlock, ...]:
        """Returns the blocks in order of registration."""
        return tuple(self._blocks.values())

    def get_factors(self) -> tuple[FisherFactor, ...]:
        """Returns the factors in the order in which they were made."""
        return tuple(self._factors.values())

    @property
    def registered_variables(self) -> tuple[Variable, ...]:
        """All parameters of all layers, in order of registration."""
        return tuple(param for key in self._blocks for param in as_tuple(key))

    @property
    def subgraph(self) -> SubGraph:
        """What the registered losses depend on; the same object once registration is over."""
        if self._final_subgraph is not None:
            return self._final_subgraph
        subgraph = SubGraph(tf.nest.flatten([loss.inputs for loss in self.losses]))
        if self.is_final:
            self._final_subgraph = subgraph
        return subgraph

    def describe(self) -> dict[str, str]:
        """Returns for each parameter's name how it is preconditioned.

        Such as {"conv/w": "kron 26x26 (x) 16x16"}. Needs static shapes of parameters only.
        """
        return {
            param.op.name: block.describe()
            for key, block in self._blocks.items()
            for param in as_tuple(key)
        }

    @property
    def linked_parameters(self) -> Mapping[frozenset[Variable], str | None]:
        """The groups of linked parameters, and the approximation of each, or None."""
        return types.MappingProxyType(self._linked)

    def define_linked_parameters(
        self, params: Parameters, approximation: str | None = None
    ) -> None:
        """Says that some parameters form one layer, and perhaps how it is to be approximated.

        A parameter by itself is a layer without a bias, or if it looks like none, generic.

        Args:
          params: One parameter, or several.
          approximation: Used when the layer is registered without one.

        Raises:
          ValueError: A parameter is in another group, or registered in a layer that has not
            exactly these parameters. Nothing is kept then.
        """
        group = as_tuple(params)
        refs = {param.ref() for param in group}
        known = [*self._linked, *(as_tuple(key) for key in self._blocks)]
        for other in known:
            others = {param.ref() for param in other}
            is_group = isinstance(other, frozenset)
            if refs & others and (is_group or refs != others):
                raise ValueError(
                    f"Cannot link parameters {parameter_names(group)} in {self.name}: some of them "
                    f"already belong to {parameter_names(tuple(other))}. Link each parameter once, "
                    "with exactly the parameters of its layer."
                )
        self._linked[frozenset(group)] = approximation

    def _resolve_approximation(self, kind: str, approx: str | None, params: Parameters) -> str:
        """Returns what was asked for, or else what is linked, or else the default."""
        refs = {param.ref() for param in as_tuple(params)}
        if approx is None:
            of_group = {frozenset(p.ref() for p in group): a for group, a in self._linked.items()}
            approx = of_group.get(frozenset(refs)) or self._default_approximations[kind]
        return check_approximation(kind, approx, f"register layer {as_tuple(params)[0].op.name!r}")

    # Registration.

    def _register_block(
        self,
        block: FisherBlock,
        inputs: Any,
        outputs: Any,
        reuse: bool | str,
        uses: float = 1,
    ) -> None:
        """Adds `block`, or a tower to its registered equal, after all checks have passed.

        `uses` is how often each of its parameters may be used in the tower's graph.
        """
        self._check_open(f"layer {block.name!r}")
        self._check_graph(f"layer {block.name!r}", *_tensors(block.name, inputs, outputs))
        existing = self._blocks.get(block.params)
        if is_reuse(reuse, existing is not None):
            self._check_same_layer(block, existing)
        else:
            self._check_new_layer(block, existing)
        registered = existing or self._blocks.setdefault(block.params, block)
        registered.register_additional_tower(inputs, outputs)
        self._uses.setdefault(block.params, []).append(uses)

    def _undo_registration(
        self, params: Parameters, before: Mapping[Parameters, FisherBlock]
    ) -> None:
        """Takes the last tower of a layer back; `before` are the blocks as they were."""
        key = as_key(params)
        self._uses[key].pop()
        if key in before:
            self._blocks[key].remove_last_tower()
        else:
            del self._blocks[key]

    def _check_same_layer(self, block: FisherBlock, existing: FisherBlock | None) -> None:
        if existing is None:
            known = ", ".join(parameter_names(key) for key in self._blocks) or NONE_YET
            raise ValueError(
                f"Cannot add a tower to layer {block.name!r} of {self.name}: reuse is True, and no "
                "layer was registered with exactly the parameters "
                f"{parameter_names(block.params)}. Registered are: {known}. Register it in the "
                "first tower with reuse=False, with the same parameters."
            )
        if type(existing) is not type(block) or existing.settings != block.settings:
            raise ValueError(
                f"Cannot add a tower to layer {block.name!r} of {self.name}: it was registered as "
                f"{type(existing).__name__}{existing.settings}, now as "
                f"{type(block).__name__}{block.settings}. All towers must register the same layer."
            )

    def _check_new_layer(self, block: FisherBlock, existing: FisherBlock | None) -> None:
        if existing is not None:
            raise ValueError(
                f"Cannot register layer {block.name!r}: it is already in LayerCollection "
                f"{self.name!r}. Register each layer once per tower; towers after the first need "
                "reuse=True, or a variable scope that reuses."
            )
        taken = {p.ref() for p in self.registered_variables}
        shared = [p.op.name for p in as_tuple(block.params) if p.ref() in taken]
        if shared:
            raise ValueError(
                f"Cannot register layer {block.name!r} with parameters "
                f"{parameter_names(block.params)}: {', '.join(shared)} was already registered with "
                f"another layer of {self.name}. A parameter can belong to one layer only."
            )

    # What blocks and estimators need.

    def make_or_get_factor(
        self, cls: Callable[..., FisherFactor], args: tuple[Any, ...], name: str
    ) -> FisherFactor:
        """Returns the factor with this class and these arguments, made when first asked for.

        Args:
          cls: Class of the factor.
          args: Its arguments, hashable; equal arguments share one factor.
          name: Name of a new factor; a shared one keeps the name of its first layer.

        Raises:
          TypeError: The arguments are not hashable.
        """
        key = (cls, args)
        if key not in self._factors:
            self._factors[key] = cls(*args, name=name, config=self.config)
        return self._factors[key]

    def finalize(self) -> None:
        """Ends registration and checks that the towers agree.

        Raises:
          ValueError: Called twice, no loss or no layer is registered, or some layer or loss was
            registered by fewer towers than another.
        """
        self._check_open("anything more")
        for kind, registered in (("layer", self._blocks), ("loss", self._losses.entries)):
            if not registered:
                raise ValueError(
                    f"Cannot compute curvature: {self.name} has no registered {kind}. Register "
                    "layers with register_fully_connected and register_conv2d, and the loss with "
                    "register_categorical_predictive_distribution, while the model is built."
                )
        self._check_tower_counts()
        self._is_final = True

    def _check_tower_counts(self) -> None:
        counts = {f"layer {b.name!r}": b.num_registered_towers for b in self._blocks.values()}
        counts |= {
            f"loss {name!r}": len(loss.towers) for name, loss in self._losses.entries.items()
        }
        towers = max(counts.values())
        short = [f"{what} by {n}" for what, n in counts.items() if n != towers]
        if short:
            raise ValueError(
                f"Cannot compute curvature from {self.name}: there are {towers} towers, but these "
                f"were registered by fewer: {', '.join(short)}. Every tower must register the "
                "same layers and losses; look for conditions on the tower in the model."
            )

    def check_registration(self, variables: Sequence[Variable]) -> None:
        """Checks that exactly these variables are registered, with all their uses.

        Raises:
          ValueError: Some of them are not, or some others are, or the losses depend on more uses
            of one than were registered; the message names them.
        """
        registered = {v.ref(): v for v in self.registered_variables}
        wanted = {v.ref(): v for v in variables}
        missing = [v.op.name for ref, v in wanted.items() if ref not in registered]
        if missing:
            raise ValueError(
                f"K-FAC cannot train {', '.join(missing)}: no layer registered in {self.name} has "
                "them. Register their layers with register_fully_connected or register_conv2d, or "
                "keep them out of var_list."
            )
        extra = [v.op.name for ref, v in registered.items() if ref not in wanted]
        if extra:
            raise ValueError(
                f"K-FAC was asked to train fewer variables than are registered in {self.name}: "
                f"{', '.join(extra)} would be left out. Put them into var_list, see that the loss "
                "depends on them, or do not register their layers."
            )
        self._check_uses()

    def _check_uses(self) -> None:
        """Compares how often parameters are used with how often this was registered."""
        subgraph = self.subgraph
        for key in self._blocks:
            for param in as_tuple(key):
                found, expected = subgraph.variable_uses(param), sum(self._uses[key])
                if found > expected:
                    raise ValueError(
                        f"Cannot compute curvature of {param.op.name}: the losses depend on "
                        f"{found} uses of it, and {expected:g} are registered in {self.name}. "
                        "Register all uses, with the register_..._multi method of its layer, or "
                        "the parameter with register_generic."
                    )


def as_key(params: Parameters) -> Parameters:
    """Returns parameters as they are used as a key: lists become tuples."""
    return tuple(params) if isinstance(params, (tuple, list)) else params


def parameter_names(params: Parameters) -> str:
    """Returns the names of parameters, for messages."""
    return "(" + ", ".join(param.op.name for param in as_tuple(params)) + ")"


def _tensors(layer: str, inputs: Any, outputs: Any) -> list[Tensor]:
    """Returns the tensors among what a layer is registered with; numbers may be among it, too."""
    everything = tf.nest.flatten([inputs, outputs])
    others = [x for x in everything if not (tf.is_tensor(x) or isinstance(x, numbers.Integral))]
    if others:
        raise TypeError(
            f"Cannot register layer {layer!r} with {type(others[0]).__name__}: {others[0]!r}. "
            "Accepted are Tensors of the model. Use tf.constant for values that do not change."
        )
    return [x for x in everything if tf.is_tensor(x)]
