"""Numbers of uses of a layer per example, from shapes.

The axes of a layer's inputs in front of the features hold examples, and may hold uses too, such as
steps in time or pixels: as axes of their own, or folded into the examples. Called by registration.
"""

import math
import numbers
from collections.abc import Sequence
from typing import NamedTuple

from kfac._types import Scalar
from kfac.graph_search.records import NotRegistrableError


class Place(NamedTuple):
    """One place in the graph where a layer is applied.

    Attributes:
      leading: Static sizes of all axes of the layer's inputs but those of an example.
      what: The op, for messages.
    """

    leading: Sequence[int | None]
    what: str


class Batch(NamedTuple):
    """The number of examples in a tower.

    Attributes:
      size: An int or an int Tensor []; None if unknown.
      is_given: Whether the user said so; otherwise it is the rows of the losses' inputs.
    """

    size: Scalar | None = None
    is_given: bool = False

    @property
    def static(self) -> int | None:
        """The size if it is an int, else None."""
        return int(self.size) if isinstance(self.size, numbers.Integral) else None


def has_unknown_uses(leading: Sequence[int | None]) -> bool:
    """Returns whether more than the number of examples is unknown.

    Args:
      leading: Static sizes of all axes of a layer's inputs but that of features.
    """
    return sum(size is None for size in leading) > 1


def uses_by_place(places: Sequence[Place], batch: Batch) -> list[int]:
    """Returns how often a layer is applied to an example, in each of its places.

    A place whose rows are a multiple of the examples has so many uses. The losses may also have
    more rows than the layer, as where those of real and of generated images are concatenated. Then
    each place is one use, if the rows of all places add up to the examples, or if each place's
    divide them.

    Args:
      places: Where the layer is applied. At most one size of each is unknown.
      batch: How many examples there are.

    Raises:
      ValueError: The user's batch size does not divide the rows.
      NotRegistrableError: Rows are not examples.
    """
    if _are_parts(places, batch):
        return [math.prod(_known(place.leading[1:])) for place in places]
    return [uses_per_example(place.leading, batch, place.what) for place in places]


def _are_parts(places: Sequence[Place], batch: Batch) -> bool:
    """Returns whether all places have only a part of the examples each."""
    examples, sizes = batch.static, [_known(place.leading) for place in places]
    is_static = all(len(s) == len(p.leading) for s, p in zip(sizes, places, strict=True))
    if examples is None or not is_static or (batch.is_given and len(places) == 1):
        return False
    if all(math.prod(of_place) % examples == 0 for of_place in sizes):
        return False
    rows = [of_place[0] for of_place in sizes]
    # A single row is data that all examples share.
    return sum(rows) == examples or all(n > 1 and examples % n == 0 for n in rows)


def _known(sizes: Sequence[int | None]) -> list[int]:
    return [size for size in sizes if size is not None]


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
    known = _known(leading)
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
