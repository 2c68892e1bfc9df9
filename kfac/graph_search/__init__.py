"""The graph scanner: finds the layers of a model in its graph, and registers them.

Most programs use it as `LayerCollection.auto_register_layers`, or `kfac.auto_register_layers`.
Register losses first: layers are looked for between parameters and losses.
"""

from collections.abc import Sequence

from kfac._types import Parameters, Scalar, Variable
from kfac.fisher_blocks.base import FisherBlock
from kfac.graph_search.auto_registration import AutoRegistration
from kfac.graph_search.filtering import (
    filter_grouped_variable_records,
    filter_subgraph_records,
    filter_user_registered_records,
)
from kfac.graph_search.records import (
    AmbiguousRegistrationError,
    MatchRecord,
    RecordType,
    ensure_sequence,
)
from kfac.graph_search.registration import HasLayers, register_records
from kfac.registration.report import Decision

__all__ = [
    "AmbiguousRegistrationError",
    "AutoRegistration",
    "Decision",
    "MatchRecord",
    "RecordType",
    "ensure_sequence",
    "filter_grouped_variable_records",
    "filter_subgraph_records",
    "filter_user_registered_records",
    "register_layers",
    "register_records",
]


def register_layers(
    layer_collection: HasLayers,
    varlist: Sequence[Variable] | None,
    batch_size: Scalar | None = None,
) -> dict[Parameters, FisherBlock]:
    """Registers the layers of the given parameters; see `LayerCollection.auto_register_layers`.

    Args:
      layer_collection: A layer collection with registered losses.
      varlist: The parameters; None means all trainable variables of the graph.
      batch_size: Examples in one tower's share of the batch; None means the losses' rows.

    Returns:
      The blocks that are new, by their parameter or tuple of parameters.

    Raises:
      ValueError: As in `LayerCollection.auto_register_layers`.
    """
    return layer_collection.auto_register_layers(varlist, batch_size)
