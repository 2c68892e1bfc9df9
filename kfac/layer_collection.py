"""The layers and losses of a model, in each tower, with the parameters that each layer has.

A model registers its layers and losses here while it is built, once per tower, or lets
`kfac.graph_search` find the layers. Nothing is kept outside of the graph: `graph_layer_collection`
hangs a collection on the graph itself. The estimator reads the finished collection.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, final

import tensorflow as tf

from kfac._types import Graph, Operation, Parameters, Scalar, Tensor, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.loss_functions.base import LossFunction
from kfac.protocols import VARIABLE_NOTES
from kfac.registration import convolutions, dense_layers, losses, scale_shift, weight_sharing
from kfac.registration.approximations import (
    APPROX_DIAGONAL_NAME,
    APPROX_EKFAC_NAME,
    APPROX_FULL_NAME,
    APPROX_KRONECKER_BOTH_DIAG_NAME,
    APPROX_KRONECKER_EXPAND_NAME,
    APPROX_KRONECKER_IN_DIAG_NAME,
    APPROX_KRONECKER_INDEP_BOTH_DIAG_NAME,
    APPROX_KRONECKER_INDEP_IN_DIAG_NAME,
    APPROX_KRONECKER_INDEP_NAME,
    APPROX_KRONECKER_INDEP_OUT_DIAG_NAME,
    APPROX_KRONECKER_NAME,
    APPROX_KRONECKER_OUT_DIAG_NAME,
    APPROX_KRONECKER_REDUCE_NAME,
    APPROX_KRONECKER_SERIES_1_NAME,
    APPROX_KRONECKER_SERIES_2_NAME,
    APPROX_KRONECKER_SUA_NAME,
)
from kfac.registration.checks import check_towers, check_uses, check_variables, collections_of_graph
from kfac.registration.layer_table import LayerTable
from kfac.registration.loss_table import LossEntry, LossTable
from kfac.registration.report import Decision, curvature_report, decision_lines
from kfac.registration.scope import VARIABLE_SCOPE, RegistrationScope
from kfac.registration.subgraph import SubGraph
from kfac.tracebacks import methods_show_user_frames
from kfac.variables import name_of

if TYPE_CHECKING:
    from kfac.graph_search.auto_registration import AutoRegistration

v1 = tf.compat.v1

__all__ = [
    "APPROX_DIAGONAL_NAME",
    "APPROX_EKFAC_NAME",
    "APPROX_FULL_NAME",
    "APPROX_KRONECKER_BOTH_DIAG_NAME",
    "APPROX_KRONECKER_EXPAND_NAME",
    "APPROX_KRONECKER_INDEP_BOTH_DIAG_NAME",
    "APPROX_KRONECKER_INDEP_IN_DIAG_NAME",
    "APPROX_KRONECKER_INDEP_NAME",
    "APPROX_KRONECKER_INDEP_OUT_DIAG_NAME",
    "APPROX_KRONECKER_IN_DIAG_NAME",
    "APPROX_KRONECKER_NAME",
    "APPROX_KRONECKER_OUT_DIAG_NAME",
    "APPROX_KRONECKER_REDUCE_NAME",
    "APPROX_KRONECKER_SERIES_1_NAME",
    "APPROX_KRONECKER_SERIES_2_NAME",
    "APPROX_KRONECKER_SUA_NAME",
    "VARIABLE_SCOPE",
    "LayerCollection",
    "auto_register_layers",
    "get_default_layer_collection",
    "graph_layer_collection",
    "set_default_layer_collection",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _of_table(
    function: Callable[Concatenate[Any, _P], _R], table: str = "layer_table"
) -> Callable[Concatenate["LayerCollection", _P], _R]:
    """Makes a method of a function of one of the tables, with its other arguments and docstring."""

    @functools.wraps(function)
    def method(self: "LayerCollection", /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return function(getattr(self, table), *args, **kwargs)

    return method


def _default(kind: str) -> property:
    """Returns the property of the approximation that a kind of layer has by default."""

    def get(self: "LayerCollection") -> str:
        return self.layer_table.defaults[kind]

    return property(get, doc=f"The approximation that `register_{kind}` uses by default.")


def _set_default(kind: str) -> Callable[["LayerCollection", str], None]:
    """Returns the method that sets the approximation that a kind of layer has by default."""

    def change(self: "LayerCollection", value: str) -> None:
        self.layer_table.set_default(kind, value)

    change.__doc__ = f"Sets the approximation that `register_{kind}` uses by default."
    change.__name__ = f"set_default_{kind}_approximation"
    change.__qualname__ = f"LayerCollection.{change.__name__}"
    return change


@final
@methods_show_user_frames
class LayerCollection:
    """The layers, parameters and losses of one model, over all its towers.

    Methods that register a layer are functions of `kfac.registration.dense_layers`, and of
    `weight_sharing`, `scale_shift` and `convolutions` beside it; those that register a loss, of
    `kfac.registration.losses`.
    These modules describe the arguments and errors that all of them have.

    Attributes:
      layer_table: The layers, their factors, and the linked parameters.
      loss_table: The losses.
    """

    def __init__(
        self,
        graph: Graph = None,
        name: str = "LayerCollection",
        config: CurvatureConfig | None = None,
    ) -> None:
        """Makes an empty collection.

        Args:
          graph: The graph of the layers; None means the current default graph.
          name: Used in messages only.
          config: Settings of all factors and blocks; None means the defaults.
        """
        self._scope = RegistrationScope(graph, name)
        self.layer_table = LayerTable(self._scope, config)
        self.loss_table = LossTable(self._scope)
        collections_of_graph(self.graph).append(self)
        self.graph.get_collection_ref(VARIABLE_NOTES).append(self.describe)

    @property
    def graph(self) -> Graph:
        """The graph that the model belongs to."""
        return self._scope.graph

    @property
    def name(self) -> str:
        """Name of the collection, for messages."""
        return self._scope.name

    @property
    def config(self) -> CurvatureConfig:
        """Settings of all factors and blocks."""
        return self.layer_table.config

    # Registration of layers.

    register_fully_connected = _of_table(dense_layers.register_fully_connected)
    register_fully_connected_multi = _of_table(dense_layers.register_fully_connected_multi)
    register_positionwise = _of_table(weight_sharing.register_positionwise)
    register_tied_embedding = _of_table(weight_sharing.register_tied_embedding)
    register_generic = _of_table(dense_layers.register_generic)
    register_scale_and_shift = _of_table(scale_shift.register_scale_and_shift)
    register_layer_norm = _of_table(scale_shift.register_layer_norm)
    register_conv1d = _of_table(convolutions.register_conv1d)
    register_conv2d = _of_table(convolutions.register_conv2d)
    register_convolution = _of_table(convolutions.register_convolution)
    register_depthwise_conv2d = _of_table(convolutions.register_depthwise_conv2d)
    register_separable_conv2d = _of_table(convolutions.register_separable_conv2d)
    register_conv2d_multi = _of_table(convolutions.register_conv2d_multi)
    register_block = _of_table(dense_layers.register_block)
    define_linked_parameters = _of_table(LayerTable.define_linked_parameters)
    make_or_get_factor = _of_table(LayerTable.make_or_get_factor)

    def auto_register_layers(
        self,
        var_list: Sequence[Variable] | None = None,
        batch_size: Scalar | None = None,
        *,
        finds_positions: bool = False,
        mask: Tensor | None = None,
    ) -> dict[Parameters, FisherBlock]:
        """Registers the layers between parameters and the registered losses.

        Looks at the graph of each tower that has registered its losses and was not scanned before.
        Call it when the losses are registered: once after all towers, or in each tower. What was
        registered by hand is left as it is. A parameter that is in no layer that is known is
        registered as generic, and a warning says why; `report` tells what each was taken for.

        Args:
          var_list: The parameters; None means all trainable variables of the graph.
          batch_size: Examples in one tower's share of the batch, an int or an int Tensor []; None
            means the rows of the losses' inputs. Needed if these are not examples, as where time
            steps are folded into them. A layer in several places whose rows are only a part of the
            examples has one use in each.
          finds_positions: True to register a table [T, D] or [1, T, D] that is added to every
            example, or whose rows are looked up once for all of them, as an embedding with the same
            ids for each example; such as position embeddings. Its block is the Kronecker product of
            the diagonal of uses of each row, and of the second moment of output gradients over all
            positions, which count as independent. False leaves them generic.
          mask: [batch, positions], false or zero at positions that the loss ignores; of the only
            tower that is scanned now. None means where the weights of a loss are zero. It is for
            dense layers and embeddings with these positions that have "kron_expand" or
            "kron_reduce", by `define_linked_parameters` or as the default of layers with several
            uses; see `register_positionwise`. Other approximations know no mask.

        Returns:
          The blocks that are new, by their parameter or tuple of parameters.

        Raises:
          ValueError: No loss is registered, or losses are registered by different numbers of
            towers; all towers were scanned; a linked group of several parameters is no layer, or
            a parameter that is linked alone becomes generic with an approximation that generic
            parameters do not have; parameters are in layers of several kinds, or scale several
            tensors; the batch size does not divide the rows of a layer; registration is over.
          AmbiguousRegistrationError: A parameter could belong to two layers, or there is one of
            no layer and the number of examples is unknown. It is a ValueError, too.
        """
        return self._auto_registration.register(var_list, batch_size, finds_positions, mask)

    @functools.cached_property
    def _auto_registration(self) -> "AutoRegistration":
        """The graph scanner for this collection, loaded where it is used."""
        from kfac.graph_search.auto_registration import AutoRegistration  # noqa: PLC0415

        return AutoRegistration(self.layer_table, self.loss_table)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions of automatic registration about each parameter, in the first tower."""
        return self._auto_registration.decisions

    # Registered layers.

    @property
    def fisher_blocks(self) -> Mapping[Parameters, FisherBlock]:
        """The blocks by their parameter or tuple of parameters, in order of registration."""
        return self.layer_table.blocks

    @property
    def fisher_factors(self) -> Mapping[tuple[Callable[..., FisherFactor], Any], FisherFactor]:
        """The factors by (class, arguments), in the order in which they were made."""
        return self.layer_table.factors

    @property
    def registered_variables(self) -> tuple[Variable, ...]:
        """All parameters of all layers, in order of registration."""
        return self.layer_table.variables

    @property
    def linked_parameters(self) -> Mapping[frozenset[Variable], str | None]:
        """The groups of linked parameters, and the approximation of each, or None."""
        return self.layer_table.linked_parameters

    def get_blocks(self) -> tuple[FisherBlock, ...]:
        """Returns the blocks in order of registration."""
        return tuple(self.fisher_blocks.values())

    def get_factors(self) -> tuple[FisherFactor, ...]:
        """Returns the factors in the order in which they were made."""
        return tuple(self.fisher_factors.values())

    def describe(self) -> dict[str, str]:
        """Returns for each parameter's name how it is preconditioned.

        Such as {"conv/w": "kron 26x26 (x) 16x16"}. Needs static shapes of parameters only.
        """
        return {
            name_of(param): block.describe()
            for key, block in self.fisher_blocks.items()
            for param in as_tuple(key)
        }

    def report(self) -> str:
        """Returns a table: each layer with its block, its factors, their sizes and devices.

        What depends on the factors is there once an optimizer or estimator has made them. After
        automatic registration another table tells what each parameter was taken for, and why.
        """
        return curvature_report(self.get_blocks(), decision_lines(self.decisions))

    # Default approximations. Setters raise ValueError if the kind of layer lacks the approximation.

    default_generic_approximation = _default("generic")
    default_fully_connected_approximation = _default("fully_connected")
    default_conv2d_approximation = _default("conv2d")
    default_fully_connected_multi_approximation = _default("fully_connected_multi")
    default_conv2d_multi_approximation = _default("conv2d_multi")
    default_scale_and_shift_approximation = _default("scale_and_shift")
    set_default_generic_approximation = _set_default("generic")
    set_default_fully_connected_approximation = _set_default("fully_connected")
    set_default_conv2d_approximation = _set_default("conv2d")
    set_default_fully_connected_multi_approximation = _set_default("fully_connected_multi")
    set_default_conv2d_multi_approximation = _set_default("conv2d_multi")
    set_default_scale_and_shift_approximation = _set_default("scale_and_shift")

    # Losses.

    register_categorical_predictive_distribution = _of_table(
        losses.register_categorical_predictive_distribution, "loss_table"
    )
    register_softmax_cross_entropy_loss = register_categorical_predictive_distribution
    register_onehot_categorical_predictive_distribution = _of_table(
        losses.register_onehot_categorical_predictive_distribution, "loss_table"
    )
    register_normal_predictive_distribution = _of_table(
        losses.register_normal_predictive_distribution, "loss_table"
    )
    register_squared_error_loss = _of_table(losses.register_squared_error_loss, "loss_table")
    register_normal_mean_variance_predictive_distribution = _of_table(
        losses.register_normal_mean_variance_predictive_distribution, "loss_table"
    )
    register_multi_bernoulli_predictive_distribution = _of_table(
        losses.register_multi_bernoulli_predictive_distribution, "loss_table"
    )
    register_sigmoid_cross_entropy_loss = register_multi_bernoulli_predictive_distribution

    @property
    def losses_by_name(self) -> Mapping[str, LossEntry]:
        """Coefficient, seed and towers of each loss, in order of registration."""
        return self.loss_table.entries

    @property
    def losses(self) -> tuple[LossFunction, ...]:
        """All losses, tower after tower within each name."""
        return self.loss_table.losses

    @property
    def towers_by_loss(self) -> tuple[tuple[LossFunction, ...], ...]:
        """For each loss name the losses of the towers."""
        return self.loss_table.towers_by_loss

    @property
    def loss_coeffs(self) -> Mapping[LossFunction, float]:
        """The coefficient of each loss in `losses`."""
        return self.loss_table.coefficients

    @property
    def loss_colocation_ops(self) -> Mapping[LossFunction, Operation]:
        """The op that computes the inputs of each loss in `losses`, and says where it is."""
        return self.loss_table.colocation_ops

    eval_losses = _of_table(LossTable.evaluate, "loss_table")
    total_loss = _of_table(LossTable.total_loss, "loss_table")
    total_sampled_loss = _of_table(LossTable.total_sampled_loss, "loss_table")

    # The end of registration.

    @property
    def is_final(self) -> bool:
        """True when registration is over."""
        return self._scope.is_closed

    @property
    def subgraph(self) -> SubGraph:
        """The ops that the registered losses depend on; one object once registration is over."""
        return self.loss_table.subgraph

    def finalize(self) -> None:
        """Ends registration and checks that the towers agree.

        Raises:
          ValueError: Called twice, no loss or no layer is registered, or some layer or loss was
            registered by fewer towers than another.
        """
        self._scope.check_open("anything more")
        check_towers(self.layer_table, self.loss_table)
        self._scope.close()

    def check_registration(self, variables: Sequence[Variable]) -> None:
        """Checks that exactly these variables are registered, with all their uses.

        Raises:
          ValueError: Some of them are not, or some others are, or the losses depend on more uses
            of one than were registered; the message names them.
        """
        check_variables(self.layer_table, variables)
        check_uses(self.layer_table, self.subgraph)

    @contextlib.contextmanager
    def as_default(self) -> Iterator["LayerCollection"]:
        """Makes this the default collection of its graph for the length of a `with` statement."""
        defaults = _defaults(self.graph)
        defaults.append(self)
        try:
            yield self
        finally:
            defaults.remove(self)


def graph_layer_collection(
    name: str = "default", config: CurvatureConfig | None = None
) -> LayerCollection:
    """Returns the layer collection of the current graph, made when first asked for.

    Every tower's model function finds the same collection. It hangs on the graph, under a key
    that is not written into MetaGraphs.

    Args:
      name: One graph can have several collections, for several optimizers.
      config: Settings of the collection; None means what it has, or the defaults.

    Raises:
      ValueError: The collection was made with another config.
    """
    holder = v1.get_default_graph().get_collection_ref((LayerCollection, name))
    if not holder:
        holder.append(LayerCollection(v1.get_default_graph(), name, config))
    collection: LayerCollection = holder[0]
    if config is not None and config != collection.config:
        raise ValueError(
            f"Cannot use layer collection {name!r} with {config}: it was made in this graph with "
            f"{collection.config}. Pass the same config in every tower, or another name."
        )
    return collection


def auto_register_layers(
    layer_collection: LayerCollection | None = None,
    var_list: Sequence[Variable] | None = None,
    batch_size: Scalar | None = None,
) -> dict[Parameters, FisherBlock]:
    """Registers the layers of a model by looking at its graph; see the method of this name.

    Args:
      layer_collection: A layer collection with registered losses; None means
        `graph_layer_collection()`.
      var_list: As in `LayerCollection.auto_register_layers`.
      batch_size: As in `LayerCollection.auto_register_layers`.

    Returns:
      The blocks that are new, by their parameter or tuple of parameters.

    Raises:
      ValueError: Any of `LayerCollection.auto_register_layers`.
    """
    collection = graph_layer_collection() if layer_collection is None else layer_collection
    return collection.auto_register_layers(var_list, batch_size)


def _defaults(graph: Graph) -> list[LayerCollection]:
    """Returns the graph's default collections, the current one last."""
    defaults: list[LayerCollection] = graph.get_collection_ref((LayerCollection,))
    return defaults


def get_default_layer_collection() -> LayerCollection:
    """Returns the default collection of the current graph.

    Raises:
      ValueError: There is none.
    """
    defaults = _defaults(v1.get_default_graph())
    if not defaults:
        raise ValueError(
            "There is no default layer collection in the current graph. Use "
            "`with collection.as_default():`, set_default_layer_collection, or "
            "graph_layer_collection, which needs neither."
        )
    return defaults[-1]


def set_default_layer_collection(layer_collection: LayerCollection | None) -> None:
    """Sets the default collection of a graph, or with None removes that of the current one.

    Raises:
      ValueError: There is a default collection already.
    """
    if layer_collection is None:
        _defaults(v1.get_default_graph()).clear()
        return
    defaults = _defaults(layer_collection.graph)
    if defaults:
        raise ValueError(
            f"Cannot make {layer_collection.name!r} the default layer collection: "
            f"{defaults[-1].name!r} is. Call set_default_layer_collection(None) first."
        )
    defaults.append(layer_collection)
