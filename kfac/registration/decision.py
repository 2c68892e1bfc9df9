"""The scanner's decision about each parameter and its reason, as readable text.

Made by `kfac.graph_search`, and read by the layer collection for its report.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kfac._types import Parameters
from kfac.fisher_blocks.base import as_tuple
from kfac.variables import name_of


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
