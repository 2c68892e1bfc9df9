"""The layers that the scanner knows, by types of ops, and the search for them in a tower.

Layers of Keras are found by it, too. A parameter cannot be registered as part of a layer if one of
its uses is an op of no known layer, or is refused by the op's matcher. Called by the scanner.
"""

import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kfac._types import Variable
from kfac.graph_search.bias import ADDITIONS
from kfac.graph_search.convolution import match_convolution, match_depthwise
from kfac.graph_search.embedding import match_lookup
from kfac.graph_search.matmul import match_einsum, match_product, match_transpose
from kfac.graph_search.normalization import match_fused_norm, match_scale
from kfac.graph_search.positions import match_position
from kfac.graph_search.records import MatchRecord, NotRegistrableError
from kfac.graph_search.tower import Tower
from kfac.registration.subgraph import Use

Matcher = Callable[[Tower, Variable, Use], list[MatchRecord]]
"""Returns the layers that an op of a tower, which a parameter enters, can be.

Raises NotRegistrableError if it is no such layer; the message says why.
"""

_MATCHERS_BY_OP: Mapping[str, Matcher] = types.MappingProxyType(
    {
        "BatchMatMul": match_product,
        "BatchMatMulV2": match_product,
        "BatchMatMulV3": match_product,
        "Conv2D": match_convolution,
        "Conv3D": match_convolution,
        "DepthwiseConv2dNative": match_depthwise,
        "Einsum": match_einsum,
        "FusedBatchNorm": match_fused_norm,
        "FusedBatchNormV2": match_fused_norm,
        "FusedBatchNormV3": match_fused_norm,
        "Gather": match_lookup,
        "GatherV2": match_lookup,
        "MatMul": match_product,
        "Mul": match_scale,
        "ResourceGather": match_lookup,
        "Transpose": match_transpose,
    }
)

_KINDS: Mapping[str, str] = types.MappingProxyType(
    {
        **dict.fromkeys(("StatelessWhile", "While"), "loop"),
        **dict.fromkeys(("Case", "If", "StatelessCase", "StatelessIf"), "condition"),
        **dict.fromkeys(("RefSwitch", "Switch"), "condition"),
        **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), "function"),
    }
)
"""Types of ops that contain other ops."""


class Matches(NamedTuple):
    """Layers found in a tower: all matches, in the order of parameters and of their uses.

    `refusals` has the reason why some use of a parameter is no layer, `additions` the op that adds
    a parameter to something, both by the parameter's reference.
    """

    records: list[MatchRecord]
    refusals: dict[Any, str]
    additions: dict[Any, str]


def find_matches(tower: Tower) -> Matches:
    """Returns all places in a tower that look like a layer."""
    found = Matches([], {}, {})
    for variable in tower.variables:
        for use in tower.uses(variable):
            try:
                position = match_position(tower, variable, use) if tower.finds_positions else []
                if position:
                    found.records.extend(position)
                elif use.op.type in {*ADDITIONS, "Sub"} and not use.in_loop:
                    found.additions.setdefault(variable.ref(), use.op.name)
                else:
                    found.records.extend(_match(tower, variable, use))
            except NotRegistrableError as reason:
                found.refusals.setdefault(variable.ref(), str(reason))
    return found


def _match(tower: Tower, variable: Variable, use: Use) -> list[MatchRecord]:
    kind = "loop" if use.in_loop else _KINDS.get(use.op.type)
    if kind is not None:
        raise NotRegistrableError(
            f"goes into the {kind} {use.op.name!r}, whose insides have no gradients outside of it; "
            "unroll a loop, or take the layer out of it"
        )
    matcher = _MATCHERS_BY_OP.get(use.op.type)
    if matcher is None:
        raise NotRegistrableError(f"goes into {use.op.name!r}, and {use.op.type} is no known layer")
    return matcher(tower, variable, use)
