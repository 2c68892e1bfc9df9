"""tf.contrib.data: datasets with the methods of TensorFlow 1.2 to 1.4, and transformations.

A dataset that is made here is one of `tf.data`, and so is what its methods make of it, all with
the old methods and arguments besides.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.compat.old_tensorflow.stand_in import StandIn

v1 = tf.compat.v1
Transformation = Callable[[Any], Any]

__all__ = [
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "TFRecordDataset",
    "TextLineDataset",
    "batch_and_drop_remainder",
    "padded_batch_and_drop_remainder",
]

_METHODS = (
    "apply",
    "batch",
    "cache",
    "concatenate",
    "enumerate",
    "filter",
    "flat_map",
    "group_by_window",
    "ignore_errors",
    "interleave",
    "padded_batch",
    "prefetch",
    "repeat",
    "shard",
    "shuffle",
    "skip",
    "take",
    "unbatch",
    "with_options",
)
"""Methods whose results have the old methods, too. All of them take the old arguments."""


@functools.cache
def _kind_of(kind: type) -> type:
    """Returns a class of datasets with the old methods, of the same layout as a given one."""
    methods: dict[str, Any] = {name: _same(getattr(kind, name)) for name in _METHODS}
    of_kind: Any = kind

    def map(  # noqa: A001  # The name of the method.
        self: Any,
        map_func: Callable[..., Any],
        num_threads: int | None = None,
        output_buffer_size: int | None = None,
        num_parallel_calls: int | None = None,
    ) -> Any:
        parallel = num_parallel_calls if num_threads is None else num_threads
        mapped = of_kind.map(self, map_func, num_parallel_calls=parallel)
        return _old(mapped if output_buffer_size is None else mapped.prefetch(output_buffer_size))

    def dense_to_sparse_batch(self: Any, batch_size: Tensor, row_shape: Any) -> Any:
        return self.apply(v1.data.experimental.dense_to_sparse_batch(batch_size, row_shape))

    methods.update(
        map=map,
        dense_to_sparse_batch=dense_to_sparse_batch,
        make_initializable_iterator=v1.data.make_initializable_iterator,
        make_one_shot_iterator=v1.data.make_one_shot_iterator,
        output_classes=property(v1.data.get_output_classes),
        output_shapes=property(v1.data.get_output_shapes),
        output_types=property(v1.data.get_output_types),
        is_old=True,
    )
    return types.new_class(kind.__name__, (kind,), exec_body=lambda names: names.update(methods))


def _same(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def with_old_methods(*args: Any, **kwargs: Any) -> Any:
        return _old(method(*args, **kwargs))

    return with_old_methods


def _old(dataset: Any) -> Any:
    """Gives a dataset the old methods, and returns it."""
    if not hasattr(type(dataset), "is_old"):
        kind: Any = type(dataset)
        dataset.__class__ = _kind_of(kind)
    return dataset


def _making(function: Callable[..., Any]) -> Any:
    """Returns a static method that makes a dataset with the old methods."""

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        return _old(function(*args, **kwargs))

    return staticmethod(make)


class Dataset(metaclass=StandIn):
    """A `tf.data.Dataset` with the methods of TensorFlow 1.2 to 1.4.

    `list_files` keeps the order of the names, as it did.
    """

    kind = tf.data.Dataset

    from_generator = _making(v1.data.Dataset.from_generator)
    from_sparse_tensor_slices = _making(v1.data.Dataset.from_sparse_tensor_slices)
    from_tensor_slices = _making(v1.data.Dataset.from_tensor_slices)
    from_tensors = _making(v1.data.Dataset.from_tensors)
    list_files = _making(functools.partial(v1.data.Dataset.list_files, shuffle=False))
    range = _making(v1.data.Dataset.range)
    zip = _making(v1.data.Dataset.zip)


class FixedLengthRecordDataset(metaclass=StandIn):
    """A `tf.data.FixedLengthRecordDataset` with the old methods."""

    kind = v1.data.FixedLengthRecordDataset
    made = _making(kind)


class TextLineDataset(metaclass=StandIn):
    """A `tf.data.TextLineDataset` with the old methods."""

    kind = v1.data.TextLineDataset
    made = _making(kind)


class TFRecordDataset(metaclass=StandIn):
    """A `tf.data.TFRecordDataset` with the old methods."""

    kind = v1.data.TFRecordDataset
    made = _making(kind)


class Iterator(metaclass=StandIn):
    """A `tf.data.Iterator`, which can also be made from a dataset."""

    kind = v1.data.Iterator
    made = kind

    @staticmethod
    def from_dataset(dataset: Any, shared_name: str | None = None) -> Any:
        """Makes an iterator whose `initializer` must run."""
        return v1.data.make_initializable_iterator(dataset, shared_name)


def batch_and_drop_remainder(batch_size: Tensor) -> Transformation:
    """Makes batches of one size, for `dataset.apply`; a smaller last one is dropped."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Tensor, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """Makes padded batches of one size; a smaller last one is dropped.

    Args:
      batch_size: Number of elements of a batch.
      padded_shapes: Nest of the shapes after padding.
      padding_values: Nest of the values to pad with, None for zeros and empty strings.

    Returns:
      A function for `dataset.apply`.
    """
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )
