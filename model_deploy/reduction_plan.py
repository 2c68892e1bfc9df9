"""Plan of a reduction: the copy that adds up each piece of the gradients.

The gradients are laid in a row, and the row is cut into parts of equal bytes, one for each copy.
`reduction` builds the operations of the plan.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

MIN_PIECE_BYTES = 1024
"""Least size of a piece, in bytes, for which a gradient is cut."""


class GradientSize(NamedTuple):
    """Size of a gradient, equal in all copies, and the place of its variable.

    Gradients of one kind may share a pack. `home` is the copy on whose device the variable is; None
    if it is elsewhere.
    """

    elements: int
    element_bytes: int
    kind: Hashable
    home: int | None


class Piece(NamedTuple):
    """Neighbouring elements of the flattened gradient at position `gradient`, from `start`."""

    gradient: int
    start: int
    elements: int


class Pack(NamedTuple):
    """Pieces that cross from device to device as one tensor, in order.

    They are added up on the device of the copy `owner`.
    """

    owner: int
    pieces: tuple[Piece, ...]


def plan_reduction(
    gradients: Sequence[GradientSize], copies: int, pack_bytes: int | None = None
) -> list[Pack]:
    """Spreads the sums of gradients over the devices of the copies, by bytes.

    A gradient at the end of one part of the row and the start of the next is cut, unless a piece
    would be smaller than `MIN_PIECE_BYTES`. Gradients whose variables are on the device of copy k
    lie in the row where part k is, so that most of them stay there. A pack of several pieces has at
    most `pack_bytes`; None: each piece is a pack. The packs contain each element of each gradient
    once.
    """
    total = sum(_bytes(size) for size in gradients)
    part_bytes = max(total / copies, MIN_PIECE_BYTES)
    owned: list[tuple[int, Piece]] = []
    offset = 0
    for index in sorted(range(len(gradients)), key=lambda index: _home(gradients[index])):
        size = gradients[index]
        for piece in _pieces(index, size, offset, part_bytes, copies):
            middle = offset + (piece.start + piece.elements / 2) * size.element_bytes
            owned.append((min(int(middle / part_bytes), copies - 1), piece))
        offset += _bytes(size)
    return _packs(owned, gradients, pack_bytes or 0)


def _bytes(size: GradientSize) -> int:
    return size.elements * size.element_bytes


def _home(size: GradientSize) -> int:
    return -1 if size.home is None else size.home


def _pieces(
    index: int, size: GradientSize, offset: int, part_bytes: float, copies: int
) -> list[Piece]:
    """Cuts a gradient that begins at an offset of the row, in bytes."""
    least = math.ceil(MIN_PIECE_BYTES / size.element_bytes)
    ends = [round((part * part_bytes - offset) / size.element_bytes) for part in range(1, copies)]
    cuts = [end for end in ends if least <= end <= size.elements - least]
    starts, stops = [0, *cuts], [*cuts, size.elements]
    return [Piece(index, start, stop - start) for start, stop in zip(starts, stops, strict=True)]


def _packs(
    owned: Iterable[tuple[int, Piece]], gradients: Sequence[GradientSize], pack_bytes: int
) -> list[Pack]:
    """Joins pieces of one owner and kind. A piece of more than `pack_bytes` is a pack itself."""
    packs: list[tuple[int, list[Piece]]] = []
    open_packs: dict[Hashable, list[Piece]] = {}
    filled: dict[Hashable, int] = {}
    for owner, piece in owned:
        size = gradients[piece.gradient]
        route = (owner, size.kind)
        filled[route] = filled.get(route, 0) + piece.elements * size.element_bytes
        if route not in open_packs or filled[route] > pack_bytes:
            open_packs[route] = []
            filled[route] = piece.elements * size.element_bytes
            packs.append((owner, open_packs[route]))
        open_packs[route].append(piece)
    return [Pack(owner, tuple(pieces)) for owner, pieces in packs]
