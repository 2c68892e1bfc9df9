"""Nests of Tensors, including dicts with both strings and numbers as keys.

`tf.nest` sorts the keys of a dict, which fails if their types differ. These functions treat such
dicts and leave all other nests to `tf.nest`. Batches are flattened and packed with them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Nest


def flatten(nest: Nest, expand_composites: bool = False) -> list[Any]:
    """Returns the leaves of a nest. Those of a dict are in the order of `keys_in_order`.

    Args:
      nest: Leaves in dicts, tuples and lists.
      expand_composites: True to take sparse and ragged tensors apart.
    """
    if not _mixes_keys(nest):
        return list(tf.nest.flatten(nest, expand_composites=expand_composites))
    return [leaf for child in _children(nest) for leaf in flatten(child, expand_composites)]


def pack_like(nest: Nest, leaves: Sequence[Any]) -> Nest:
    """Returns a nest of the same structure with other leaves, in the order of `flatten`."""
    if not _mixes_keys(nest):
        return tf.nest.pack_sequence_as(nest, leaves)
    packed, start = [], 0
    for child in _children(nest):
        end = start + len(flatten(child))
        packed.append(pack_like(child, leaves[start:end]))
        start = end
    if isinstance(nest, Mapping):
        by_key = dict(zip(keys_in_order(nest), packed, strict=True))
        return {key: by_key[key] for key in nest}
    return nest._make(packed) if hasattr(nest, "_make") else type(nest)(packed)


def keys_in_order(mapping: Mapping[Any, Any]) -> list[Any]:
    """Returns the keys, sorted. Keys that cannot be compared are sorted by type, then as text."""
    try:
        return sorted(mapping)
    except TypeError:
        return sorted(mapping, key=lambda key: (type(key).__name__, str(key)))


def _children(nest: Nest) -> list[Nest]:
    if isinstance(nest, Mapping):
        return [nest[key] for key in keys_in_order(nest)]
    return list(nest)


def _mixes_keys(nest: Nest) -> bool:
    """Returns True if the nest contains a dict whose keys Python cannot sort."""
    if isinstance(nest, Mapping):
        try:
            sorted(nest)
        except TypeError:
            return True
        return any(map(_mixes_keys, nest.values()))
    return isinstance(nest, list | tuple) and any(map(_mixes_keys, nest))
