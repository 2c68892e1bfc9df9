"""Which tensors and parameters form which layer, in each tower, and which losses there are.

A model registers its layers and losses here while it is built, once per tower, or lets
`kfac.graph_search` find the layers. Nothing is kept outside of the graph: `graph_layer_collection`
hangs a collection on the graph itself. The estimator reads the finished collection.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from kfac._types import Graph, Parameters, Scalar, Variable
from kfac.config import CurvatureConfig
from kfac.fisher_blocks.base import FisherBlock
from kfac.graph_search import AutoRegistration
from kfac.graph_search.decision import decision_lines
from kfac.moved_names import finder, with_moved_attributes
from kfac.registration.approximations import (
    APPROX_DIAGONAL_NAME,
    APPROX_EKFAC_NAME,
    APPROX_FULL_NAME,
    APPROX_KRONECKER_BOTH_DIAG_NAME,
    APPROX_KRONECKER_IN_DIAG_NAME,
    APPROX_KRONECKER_INDEP_BOTH_DIAG_NAME,
    APPROX_KRONECKER_INDEP_IN_DIAG_NAME,
    APPROX_KRONECKER_INDEP_NAME,
    APPROX_KRONECKER_INDEP_OUT_DIAG_NAME,
    APPROX_KRONECKER_NAME,
    APPROX_KRONECKER_OUT_DIAG_NAME,
    APPROX_KRONECKER_SERIES_1_NAME,
    APPROX_KRONECKER_SERIES_2_NAME,
    APPROX_KRONECKER_SUA_NAME,
)
from kfac.registration.report import curvature_report
from kfac.registration.reuse import VARIABLE_SCOPE

v1 = tf.compat.v1

__all__ = [
    "APPROX_DIAGONAL_NAME",
    "APPROX_EKFAC_NAME",
    "APPROX_FULL_NAME",
    "APPROX_KRONECKER_BOTH_DIAG_NAME",
    "APPROX_KRONECKER_INDEP_BOTH_DIAG_NAME",
    "APPROX_KRONECKER_INDEP_IN_DIAG_NAME",
    "APPROX_KRONECKER_INDEP_NAME",
    "APPROX_KRONECKER_INDEP_OUT_DIAG_NAME",
    "APPROX_KRONECKER_IN_DIAG_NAME",
    "APPROX_KRONECKER_NAME",
    "APPROX_KRONECKER_OUT_DIAG_NAME",
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


@with_moved_attributes
class LayerCollection(AutoRegistration):
    """The layers, parameters and losses of one model, over all its towers.

    Kinds of layers and losses are inherited. All methods that register a layer have these
    arguments beside its tensors:

      approx: Name of an approximation; None means that of its linked parameters, or else the
        default of the kind of layer.
      reuse: True adds a tower to a registered layer, False registers a new one, AUTO_REUSE does
        what fits, VARIABLE_SCOPE goes by the flag of the current variable scope.

    They all raise ValueError if the approximation is unknown, `reuse` does not fit, a parameter
    belongs to another layer, a tensor is of another graph, or registration is over; and TypeError
    if a tensor is something else. The collection is then left as it was.
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
        super().__init__(graph, name, config)

    def report(self) -> str:
        """Returns a table: each layer with its block, its factors, their sizes and devices.

        What depends on the factors is there once an optimizer or estimator has made them. After
        automatic registration another table tells what each parameter was taken for, and why.
        """
        return curvature_report(self.get_blocks(), decision_lines(self.decisions))

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
        holder.append(LayerCollection(name=name, config=config))
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
      batch_size: As there.

    Returns:
      The blocks that are new, by their parameter or tuple of parameters.

    Raises:
      ValueError: As there.
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


if not TYPE_CHECKING:
    __getattr__ = finder(__name__)
