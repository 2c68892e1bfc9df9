"""tf.contrib.framework.nest: `tf.nest`, and the functions of TensorFlow 1 that it lacks.

A structure is a list, a tuple, a named tuple, a dict or an attrs class, nested; all else is a leaf.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

assert_same_structure = tf.nest.assert_same_structure
flatten = tf.nest.flatten
is_nested = tf.nest.is_nested
is_sequence = tf.nest.is_nested
map_structure = tf.nest.map_structure
pack_sequence_as = tf.nest.pack_sequence_as


def _children(structure: Any) -> Iterator[tuple[Any, Any]]:
    """Returns keys and values of one level, in the order of `flatten`."""
    if isinstance(structure, Mapping):
        return ((key, structure[key]) for key in sorted(structure))
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return zip(structure._fields, structure, strict=True)
    if hasattr(structure, "__attrs_attrs__"):
        return ((each.name, getattr(structure, each.name)) for each in structure.__attrs_attrs__)
    return enumerate(structure)


def flatten_with_tuple_paths(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Returns all leaves with their paths, tuples of keys and positions."""
    if not is_nested(structure):
        return [((), structure)]
    return [
        ((key, *path), leaf)
        for key, value in _children(structure)
        for path, leaf in flatten_with_tuple_paths(value)
    ]


def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """Returns all leaves with their paths, such as ("a/0/b", leaf)."""
    del expand_composites
    return [
        (separator.join(map(str, path)), leaf) for path, leaf in flatten_with_tuple_paths(structure)
    ]


def map_structure_with_paths(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Maps leaves to func("a/0/b", leaf, …), as a structure like the first one."""
    paths = [path for path, _ in flatten_with_joined_string_paths(structure[0])]
    for other in structure[1:]:
        assert_same_structure(structure[0], other)
    rows = zip(paths, *map(flatten, structure), strict=True)
    return pack_sequence_as(structure[0], [func(*row, **kwargs) for row in rows])


def flatten_dict_items(dictionary: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns a flat dict of one whose keys and values may be structures of the same shape.

    Args:
      dictionary: Such as {(4, 5): ("a", "b"), 6: "c"}, which gives {4: "a", 5: "b", 6: "c"}.

    Raises:
      TypeError: It is no dict.
      ValueError: A key occurs twice, or a key and its value have different structures.
    """
    if not isinstance(dictionary, Mapping):
        raise TypeError(f"flatten_dict_items takes a dict, got {dictionary!r}.")
    flat: dict[Any, Any] = {}
    for key, value in dictionary.items():
        keys = flatten(key)
        values = flatten(value) if is_nested(key) else [value]
        if len(keys) != len(values):
            raise ValueError(f"Key {key!r} and value {value!r} have different structures.")
        for each, item in zip(keys, values, strict=True):
            if each in flat:
                raise ValueError(f"Key {each!r} occurs twice in {dictionary!r}.")
            flat[each] = item
    return flat


def assert_shallow_structure(shallow_tree: Any, input_tree: Any, check_types: bool = True) -> None:
    """Checks that a structure begins like a shallower one, and may go on where that has leaves.

    With `check_types`, the types of lists, tuples and dicts must be equal, too.

    Raises:
      TypeError: A structure stands where the other has a leaf, or one of another type.
      ValueError: Two have different lengths or keys.
    """
    if not is_nested(shallow_tree):
        return
    if not is_nested(input_tree):
        raise TypeError(f"Expected a structure like {shallow_tree!r}, got {input_tree!r}.")
    both_are_dicts = isinstance(shallow_tree, Mapping) and isinstance(input_tree, Mapping)
    if check_types and not both_are_dicts and type(shallow_tree) is not type(input_tree):
        raise TypeError(
            f"Expected a {type(shallow_tree).__name__} like {shallow_tree!r}, got {input_tree!r}."
        )
    shallow, deep = dict(_children(shallow_tree)), dict(_children(input_tree))
    if (shallow.keys() != deep.keys()) if both_are_dicts else len(shallow) != len(deep):
        raise ValueError(
            f"Structures must have the same elements: {list(shallow)} and {list(deep)}."
        )
    for first, second in zip(shallow.values(), deep.values(), strict=True):
        assert_shallow_structure(first, second, check_types)


def flatten_up_to(shallow_tree: Any, input_tree: Any, check_types: bool = True) -> list[Any]:
    """Returns what a structure has where a shallower one has leaves; errors as above."""
    assert_shallow_structure(shallow_tree, input_tree, check_types)
    return list(_up_to(shallow_tree, input_tree))


def _up_to(shallow: Any, deep: Any) -> Iterator[Any]:
    if not is_nested(shallow):
        yield deep
        return
    for (_, first), (_, second) in zip(_children(shallow), _children(deep), strict=True):
        yield from _up_to(first, second)


def map_structure_up_to(
    shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any
) -> Any:
    """Maps what structures have where a shallower one has leaves to func(…), a structure like it.

    Args:
      shallow_tree: Structure of the result.
      func: Function of as many arguments as there are structures.
      *inputs: Structures that begin like the first one.
      **kwargs: `check_types`, as for `assert_shallow_structure`.

    Raises:
      ValueError: There is no structure in `inputs`, or one begins otherwise.
      TypeError: One begins otherwise.
    """
    if not inputs:
        raise ValueError("map_structure_up_to got no structure to map.")
    columns = [flatten_up_to(shallow_tree, each, **kwargs) for each in inputs]
    return pack_sequence_as(shallow_tree, [func(*row) for row in zip(*columns, strict=True)])
