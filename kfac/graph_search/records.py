"""Match records: parameters, the tensors around them, and the kind of layer.

Plain values that the modules of this package hand to each other: matchers make them, filters choose
among them, and registration reads them.
"""

import dataclasses
import enum
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kfac._types import Parameters, Tensor, Variable
from kfac.fisher_blocks.base import as_tuple
from kfac.variables import name_of


class RecordType(enum.Enum):
    """The kinds of layers that are recognised."""

    fully_connected = "dense layer"
    embedding = "embedding"
    tied = "output layer of a tied embedding"
    conv2d = "2-D convolution"
    convolution = "convolution"
    depthwise_conv2d = "depthwise convolution"
    scale_and_shift = "scale and shift"
    batch_norm = "scale and shift of a fused batch normalization"


@dataclasses.dataclass(frozen=True, eq=False)
class MatchRecord:
    """One place in the graph that looks like a layer.

    Attributes:
      record_type: Kind of layer that the place looks like.
      params: The layer's parameter, or a tuple of its parameters.
      tensor_set: All tensors that the match covers. Of two matches at one place, the one with more
        tensors explains more.
      data: Arguments for the registration: "inputs" and "outputs", each a tensor or a function that
        makes it, and the settings of convolutions.
      order: Position of its op in the graph, to order several uses.
      description: Readable description of the match, for the report.
    """

    record_type: RecordType
    params: Parameters
    tensor_set: Collection[Tensor]
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    order: int = 0
    description: str = ""


Records = Mapping[Parameters, Sequence[MatchRecord]]
"""Matches by their parameter or tuple of parameters."""


class AmbiguousRegistrationError(ValueError):
    """A parameter could belong to several layers, or something that it needs is unknown."""


class NotRegistrableError(ValueError):
    """The reason why a recognised op cannot be registered as the layer that it looks like."""


def ensure_sequence(value: Any) -> Any:
    """Returns tuples and lists as they are, and anything else as a tuple of one."""
    return value if isinstance(value, (tuple, list)) else (value,)


def place_of(params: Parameters) -> tuple[Any, ...]:
    """Returns the key by which parameters are sorted: their names, with numbers by size.

    So `dense_9` comes before `dense_10`, as `dense_1` before `dense_2`. Processes of a job, and
    another life of one, number the layers of Keras from where they are, and sort them alike.
    """
    texts = (re.split(r"(\d+)", name) for name in map(name_of, as_tuple(params)))
    return tuple(
        tuple(int(part) if index % 2 else part for index, part in enumerate(parts))
        for parts in texts
    )


def with_part(
    record: MatchRecord, part: Variable, tensors: Sequence[Tensor], what: str, **data: Any
) -> MatchRecord:
    """Returns a match extended by one parameter, such as a bias, and the tensors around it."""
    return dataclasses.replace(
        record,
        params=(record.params, part),
        tensor_set=(*record.tensor_set, *tensors),
        data={**record.data, **data},
        description=f"{record.description}{what}",
    )


def group(records: Sequence[MatchRecord]) -> dict[Parameters, list[MatchRecord]]:
    """Returns matches by parameters, sorted by name; matches of one key are sorted by position."""
    by_key: dict[Parameters, list[MatchRecord]] = {}
    for record in sorted(records, key=lambda r: (place_of(r.params), r.order)):
        by_key.setdefault(record.params, []).append(record)
    return by_key


def refs(params: Parameters) -> frozenset[Any]:
    """Returns the references of parameters, which can be compared with those of others."""
    return frozenset(param.ref() for param in as_tuple(params))
