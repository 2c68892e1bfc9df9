"""Reductions: ways by which the gradients of several copies of a model become one sum.

- "last": each copy sends its gradients to the devices of their variables, which add them up.
- "sharded": the device of each copy adds up an equal part of the gradients, by bytes. Then the sums
  go to the devices of their variables.
- "tree": the same parts, but neighbouring copies add up theirs pair by pair: the halves of the list
  of copies are summed first, each of them in the same way, and then their two sums.

Additions have a fixed order. The order of "sharded" is that of "last", so both give the same bits.
The order of "tree" does not depend on the devices of the variables.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, get_args

import tensorflow as tf

from model_deploy._types import Device, Gradient, Tensor, Variable
from model_deploy.arguments import check_sequence
from model_deploy.gradients import GradientsAndVariables, add_in_order, sum_over_copies
from model_deploy.packing import cross_in_packs
from model_deploy.reduction_plan import GradientSize, Pack, Piece, plan_reduction

v1 = tf.compat.v1

GradientReduction: TypeAlias = Literal["last", "tree", "sharded"]
"""Way by which gradients are summed over several devices."""

_Addition: TypeAlias = Callable[[Sequence[Tensor], Sequence[Device], int], Tensor]


def reduce_over_copies(
    copies: Sequence[GradientsAndVariables],
    devices: Sequence[Device],
    reduction: GradientReduction = "last",
    pack_bytes: int | None = None,
) -> list[tuple[Gradient, Variable]]:
    """Sums the gradients of all copies, variable by variable, on the device of each variable.

    With "tree" and "sharded", these gradients are still added up on the devices of their variables:
    sparse ones, which do not become smaller by addition, those of unknown shape, and those that
    only some copies have.

    Args:
      copies: The (gradient, variable) pairs of each copy.
      devices: Device of each copy.
      reduction: "last", "tree" or "sharded".
      pack_bytes: Most bytes of the packs in which gradients cross between devices, ≥ 1; None: each
        gradient crosses by itself.

    Returns:
      One (sum, variable) pair for each variable that has a gradient in at least one copy, in the
      order in which the variables first appear.

    Raises:
      ValueError: The reduction is unknown, or there are not as many devices as copies.
      TypeError: `copies` or `devices` is no list.
    """
    doing = "sum gradients over copies"
    check_sequence(doing, "copies", copies, "a list of (gradient, variable) pairs for each copy")
    check_sequence(doing, "devices", devices, "a list of device names")
    if reduction not in get_args(GradientReduction):
        raise ValueError(
            f"reduction must be one of {get_args(GradientReduction)}, got {reduction!r}."
        )
    if len(devices) != len(copies):
        raise ValueError(
            f"Cannot reduce the gradients of {len(copies)} copies on {len(devices)} devices: "
            f"there must be one device for each copy."
        )
    if reduction == "last" or len(copies) == 1:
        return _sum_on_variable_devices(copies, pack_bytes)
    shared = _shared_gradients(copies)
    rest = [[pair for pair in pairs if pair[1].ref() not in shared] for pairs in copies]
    sums = [
        *_sum_on_variable_devices(rest, pack_bytes),
        *_sum_by_plan(list(shared.values()), devices, _ADDITIONS[reduction], pack_bytes),
    ]
    by_variable = {variable.ref(): (total, variable) for total, variable in sums}
    order = dict.fromkeys(variable.ref() for pairs in copies for _, variable in pairs)
    return [by_variable[ref] for ref in order if ref in by_variable]


class _SharedGradients(NamedTuple):
    """Dense gradients of one variable, one for each copy, of one known shape."""

    variable: Variable
    parts: list[Tensor]


def _sum_on_variable_devices(
    copies: Sequence[GradientsAndVariables], pack_bytes: int | None
) -> list[tuple[Gradient, Variable]]:
    if pack_bytes is not None:
        copies = [cross_in_packs(pairs, pack_bytes) for pairs in copies]
    return sum_over_copies(copies)


def _shared_gradients(copies: Sequence[GradientsAndVariables]) -> dict[object, _SharedGradients]:
    """Returns the gradients that a plan can spread, by their variables."""
    found: dict[object, _SharedGradients] = {}
    for pairs in copies:
        for gradient, variable in pairs:
            found.setdefault(variable.ref(), _SharedGradients(variable, [])).parts.append(gradient)
    return {
        ref: shared
        for ref, shared in found.items()
        if len(shared.parts) == len(copies) and all(_has_known_size(part) for part in shared.parts)
    }


def _has_known_size(gradient: Gradient | None) -> bool:
    if gradient is None or isinstance(gradient, tf.IndexedSlices):
        return False
    return bool(gradient.shape.is_fully_defined())


def _sum_by_plan(
    gradients: Sequence[_SharedGradients],
    devices: Sequence[Device],
    add: _Addition,
    pack_bytes: int | None,
) -> list[tuple[Tensor, Variable]]:
    """Sums gradients pack by pack, then puts the pieces of each variable together."""
    sizes = [_size(shared, devices) for shared in gradients]
    arrived: list[list[tuple[int, Tensor]]] = [[] for _ in gradients]
    for pack in plan_reduction(sizes, len(devices), pack_bytes):
        parts = []
        for copy, device in enumerate(devices):
            with v1.device(device):
                parts.append(_joined([_cut(gradients[p.gradient], copy, p) for p in pack.pieces]))
        total = add(parts, devices, pack.owner)
        with v1.device(gradients[pack.pieces[0].gradient].variable.device):
            for piece, values in zip(pack.pieces, _split(tf.identity(total), pack), strict=True):
                arrived[piece.gradient].append((piece.start, values))
    return [
        (_whole(shared, pieces), shared.variable)
        for shared, pieces in zip(gradients, arrived, strict=True)
    ]


def _size(shared: _SharedGradients, devices: Sequence[Device]) -> GradientSize:
    part, device = shared.parts[0], shared.variable.device
    home = devices.index(device) if device in devices else None
    kind = (part.dtype, device)
    return GradientSize(part.shape.num_elements(), part.dtype.size, kind, home)


def _cut(shared: _SharedGradients, copy: int, piece: Piece) -> Tensor:
    """Returns a piece of one copy's gradient, flat; a whole gradient as it is."""
    gradient = shared.parts[copy]
    if piece.elements == gradient.shape.num_elements():
        return gradient
    return tf.slice(tf.reshape(gradient, [-1]), [piece.start], [piece.elements])


def _joined(pieces: Sequence[Tensor]) -> Tensor:
    """Returns the tensor of a pack."""
    if len(pieces) == 1:
        return pieces[0]
    return tf.concat([tf.reshape(piece, [-1]) for piece in pieces], axis=0)


def _split(values: Tensor, pack: Pack) -> list[Tensor]:
    """Returns the pieces of a pack's tensor."""
    if len(pack.pieces) == 1:
        return [values]
    return list(tf.split(values, [piece.elements for piece in pack.pieces]))


def _whole(shared: _SharedGradients, pieces: Iterable[tuple[int, Tensor]]) -> Tensor:
    """Returns a gradient from its pieces, each with its start."""
    in_order = [values for _, values in sorted(pieces, key=lambda piece: piece[0])]
    with v1.device(shared.variable.device):
        return tf.reshape(
            _joined(in_order),
            shared.parts[0].shape,
            name=f"{shared.variable.op.name}/sum_grads",
        )


def _add_on_owner(parts: Sequence[Tensor], devices: Sequence[Device], owner: int) -> Tensor:
    with v1.device(devices[owner]):
        return add_in_order(parts)


def _add_in_tree(parts: Sequence[Tensor], devices: Sequence[Device], owner: int) -> Tensor:
    """Adds the sums of the first and the second half of the copies, on the owner's device.

    The sum of the half without the owner is on the device with the owner's place in that half.
    """
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    place = owner if owner < middle else owner - middle
    first = _add_in_tree(parts[:middle], devices[:middle], place)
    second = _add_in_tree(parts[middle:], devices[middle:], min(place, len(parts) - middle - 1))
    with v1.device(devices[owner]):
        return tf.add(first, second)


_ADDITIONS: Mapping[str, _Addition] = MappingProxyType(
    {"tree": _add_in_tree, "sharded": _add_on_owner}
)
