"""Numbers of uses of a layer per example, from shapes.

The axes of a layer's inputs before the features hold examples. They may also hold uses, such as
steps in time or pixels: as further axes, or folded into the examples. Called by registration.
"""

import math
import numbers
from collections.abc import Sequence
from typing import NamedTuple

from kfac._types import Scalar
from kfac.graph_search.records import NotRegistrableError


class Place(NamedTuple):
    """One place in the graph where a layer is applied, with the name of its op for messages.

    `leading` are the static sizes of all axes of the layer's inputs, except the axes of one
    example.
    """

    leading: Sequence[int | None]
    what: str


class Batch(NamedTuple):
    """The number of examples in a tower, an int or an int Tensor []; None if unknown.

    It is given by the user, or else the number of rows of the losses' inputs.
    """

    size: Scalar | None = None
    is_given: bool = False

    @property
    def static(self) -> int | None:
        """The size if it is an int, else None."""
        return int(self.size) if isinstance(self.size, numbers.Integral) else None


def has_unknown_uses(leading: Sequence[int | None]) -> bool:
    """Returns True if more than one leading size is unknown, so not only the number of examples."""
    return sum(size is None for size in leading) > 1


def uses_by_place(places: Sequence[Place], batch: Batch) -> list[int]:
    """Returns the number of uses per example, for each place of a layer.

    Each place has one unknown size at most. One whose rows are k times the examples has k uses. The
    losses may also have more rows than the layer, for example if the losses of real and of
    generated images are concatenated. Then each place is one use, if the rows of all places add up
    to the examples, or if the rows of each place divide them.

    Raises:
      ValueError: The user's batch size does not divide the rows.
      NotRegistrableError: Rows are not examples.
    """
    if _are_parts(places, batch):
        return [math.prod(_known(place.leading[1:])) for place in places]
    return [uses_per_example(place.leading, batch, place.what) for place in places]


def _are_parts(places: Sequence[Place], batch: Batch) -> bool:
    """Returns True if each place has only a part of the examples."""
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
    """Returns the number of times that a layer is applied to an example in the op `what`.

    `leading` are the static sizes of all axes of its inputs except that of features, in any order;
    one may be unknown.

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
                f"is always applied in {what} to {rows} rows, but the size of the batch varies, "
                "so rows are not examples"
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
