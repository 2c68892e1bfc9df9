"""tf.contrib.graph_editor: walks through a graph, copies of parts of it, and rerouted tensors.

What gradient checkpointing and unrolled optimizers use of it.
"""

from replicate.compat.contrib.graph_editor.changes import (
    add_control_inputs,
    detach_control_inputs,
    remove_control_inputs,
    reroute_ts,
)
from replicate.compat.contrib.graph_editor.copies import (
    SubGraphView,
    TransformerInfo,
    copy,
    copy_with_input_replacements,
    graph_replace,
    sgv,
)
from replicate.compat.contrib.graph_editor.walks import (
    filter_ops,
    filter_ops_from_regex,
    filter_ts,
    filter_ts_from_regex,
    get_backward_walk_ops,
    get_consuming_ops,
    get_forward_walk_ops,
    get_generating_ops,
    get_name_scope_ops,
    get_tensors,
    get_within_boundary_ops,
    make_list_of_op,
    make_list_of_t,
)

__all__ = [
    "SubGraphView",
    "TransformerInfo",
    "add_control_inputs",
    "copy",
    "copy_with_input_replacements",
    "detach_control_inputs",
    "filter_ops",
    "filter_ops_from_regex",
    "filter_ts",
    "filter_ts_from_regex",
    "get_backward_walk_ops",
    "get_consuming_ops",
    "get_forward_walk_ops",
    "get_generating_ops",
    "get_name_scope_ops",
    "get_tensors",
    "get_within_boundary_ops",
    "graph_replace",
    "make_list_of_op",
    "make_list_of_t",
    "remove_control_inputs",
    "reroute_ts",
    "sgv",
]
