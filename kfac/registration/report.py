"""Readable texts for users: a table of layers, and the decisions of the graph scanner.

The table has blocks and factors of the layers, their sizes and devices. Called by the layer
collection and by `kfac.graph_search`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kfac._types import Parameters, Variable
from kfac.fisher_blocks.base import FisherBlock, as_tuple
from kfac.fisher_factors.base import FisherFactor
from kfac.variables import name_of

_UNITS = ("B", "KB", "MB", "GB")


def curvature_report(blocks: Sequence[FisherBlock], found: Sequence[str] = ()) -> str:
    """Returns one paragraph per block: parameters, approximation, then a line per factor.

    A line names the factor, its class, dtype and shape; then the bytes and the device of its
    average, and those of its inverses. Factor lines appear once factors have been made, bytes and
    devices once variables have been made. What the graph scanner found follows, one line per
    decision.
    """
    lines = [line for block in blocks for line in _block_lines(block)]
    if found:
        lines += ["found in the graph:", *(f"  {line}" for line in found)]
    return "\n".join(lines)


def _block_lines(block: FisherBlock) -> list[str]:
    names = ", ".join(name_of(param) for param in as_tuple(block.params))
    towers = f"{block.num_registered_towers} tower(s)"
    head = f"{names}: {type(block).__name__}, {block.describe()}, {towers}"
    return [head, *(f"  {_factor_line(factor)}" for factor in block.made_factors)]


def _factor_line(factor: FisherFactor) -> str:
    shape = "x".join(map(str, factor.cov_shape))
    parts = [f"{factor.name}: {type(factor).__name__}, {factor.dtype.name} {shape}"]
    for what, variables in (
        ("average", factor.cov_variables),
        ("inverses", factor.inv_variables),
    ):
        if variables:
            parts.append(f"{what} {_size(variables)}{_where(variables)}")
    return ", ".join(parts)


def _size(variables: Sequence[Variable]) -> str:
    size = float(sum(v.shape.num_elements() * v.dtype.base_dtype.size for v in variables))
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"


def _where(variables: Sequence[Variable]) -> str:
    devices = dict.fromkeys(v.device for v in variables if v.device)
    return f" on {' '.join(devices)}" if devices else ""


class Decision(NamedTuple):
    """The registration of one or more parameters, with its reason.

    `text` names the layer that was recognised, or tells why none was. `is_expected` is false if the
    parameters belong to no known layer, so that the user should be told.
    """

    params: Parameters
    text: str
    is_expected: bool = True


def decision_lines(decisions: Sequence[Decision]) -> list[str]:
    """Returns one line per decision."""
    return [f"{', '.join(name_of(v) for v in as_tuple(d.params))}: {d.text}" for d in decisions]


def warning_text(decisions: Sequence[Decision]) -> str | None:
    """Returns a warning that names each parameter without a layer, or None if there is none."""
    lost = [decision for decision in decisions if not decision.is_expected]
    if not lost:
        return None
    lines = "\n  ".join(decision_lines(lost))
    return (
        "K-FAC takes these parameters one by one, as register_generic does, because it knows no "
        f"layer that they belong to:\n  {lines}\nIf they belong to layers, register these by hand, "
        "before automatic registration."
    )
