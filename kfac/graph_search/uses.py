"""How often a layer is applied to an example, from shapes.

The axes of a layer's inputs in front of the features hold examples, and may hold uses too, such as
steps in time or pixels: as axes of their own, or folded into the examples. Called by registration.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from kfac._types import Scalar
from kfac.graph_search.records import NotRegistrableError


class Batch(NamedTuple):
    """How many examples there are in a tower.

    Attributes:
      size: An int or an int Tensor []; None if unknown.
      is_given: Whether the user said so; otherwise it is the rows of the losses' inputs.
    """

    size: Scalar | None = None
    is_given: bool = False

    @property
    def static(self) -> int | None:
        """The size if it is an int, else None."""
        return self.size if isinstance(self.size, int) else None


def has_unknown_uses(leading: Sequence[int | None]) -> bool:
    """Returns whether more than the number of examples is unknown.

    Args:
      leading: Static sizes of all axes of a layer's inputs but that of features.
    """
    return sum(size is None for size in leading) > 1


def uses_per_example(leading: Sequence[int | None], batch: Batch, what: str) -> int:
    """Returns how often a layer is applied to an example.

    Args:
      leading: Static sizes of all axes of its inputs but that of features, in any order; one of
        them may be unknown.
      batch: How many examples there are.
      what: The op, for messages.

    Raises:
      ValueError: The user's batch size does not divide the rows.
      NotRegistrableError: Rows are not examples.
    """
    known = [size for size in leading if size is not None]
    if len(known) < len(leading):
        return math.prod(known)
    rows = math.prod(known)
    if batch.static is None:
        if batch.size is not None:
            raise NotRegistrableError(
                f"is applied in {what} to {rows} rows, always, while the batch has any number; "
                "rows are then not examples"
            )
        return math.prod(known[1:])
    if rows % batch.static == 0:
        return rows // batch.static
    if batch.is_given:
        raise ValueError(
            f"Cannot register layers automatically: {what} has inputs with {rows} rows, which "
            f"batch_size={batch.static} does not divide. Pass the number of examples in one "
            "tower's share of the batch, or register the layer yourself."
        )
    raise NotRegistrableError(
        f"is applied in {what} to {rows} rows, and the losses have {batch.static}; pass batch_size"
    )
