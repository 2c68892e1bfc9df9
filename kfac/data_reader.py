"""Batches whose size changes while training, and the batch of the previous run.

Adaptive damping compares the loss before and after a step on the same batch, and so needs the
previous one again. Readers take Tensors that are already there; where data come from is the
program's business. Used by training programs; the optimizers only see the Tensors.
"""

import functools
import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Operation, Tensor
from kfac.linalg.tensor_ops import static_size
from kfac.seeds import stateless_seed
from kfac.state import Assignment, assign_all, make_counter, make_variable, read

v1 = tf.compat.v1

__all__ = ["CachedDataReader", "CachedIndexedReader", "IndexedBatchReader", "VariableBatchReader"]

Batch = Any
"""A Tensor, or a nested structure of Tensors, with rows for examples."""


@typing.final
class VariableBatchReader:
    """Takes the first rows of a batch.

    The batch has to come in a new random order in each run, as from a shuffled dataset.
    """

    def __init__(self, dataset: Batch, max_batch_size: int) -> None:
        """Takes the batch to cut.

        Args:
          dataset: Tensors [rows, ...], at least `max_batch_size` rows each.
          max_batch_size: The largest size that will be asked for.

        Raises:
          ValueError: A Tensor is known to have fewer rows.
        """
        for tensor in tf.nest.flatten(dataset):
            rows = static_size(tensor, 0)
            if rows is not None and rows < max_batch_size:
                raise ValueError(
                    f"Cannot read batches of up to {max_batch_size} examples: Tensor "
                    f"{tensor.name!r} has {rows} rows. Read larger batches, or lower "
                    "max_batch_size."
                )
        self._dataset = dataset
        self._max_batch_size = max_batch_size

    def __call__(self, batch_size: Tensor | int) -> Batch:
        """Returns the first `batch_size` rows, structured as the dataset.

        Args:
          batch_size: An int, or an int Tensor []; at most `max_batch_size`.

        Raises:
          ValueError: An int is out of its range; for Tensors an op checks it.
        """
        size = _checked_size(batch_size, self._max_batch_size)
        return tf.nest.map_structure(lambda tensor: tensor[:size], self._dataset)


class _CachingReader:
    """A reader that has the batch of the previous run, once it was called."""

    _cached_batch: Batch = None

    @property
    def cached_batch(self) -> Batch:
        """The batch of the previous run; no rows in the first one.

        Raises:
          ValueError: The reader has not been called yet.
        """
        if self._cached_batch is None:
            raise ValueError(
                f"{type(self).__name__} has no cached_batch yet. Call the reader with a batch size "
                "first: that decides which batch is the previous one of the next run."
            )
        return self._cached_batch


@typing.final
class CachedDataReader(_CachingReader):
    """A `VariableBatchReader` that also hands out the batch of the previous run.

    It keeps that batch in variables, so a checkpoint holds it.
    """

    def __init__(self, dataset: Batch, max_batch_size: int) -> None:
        """Makes the variables, without examples in them.

        Args:
          dataset: Tensors [rows, ...], at least `max_batch_size` rows each, other axes static.
          max_batch_size: The largest size that will be asked for.

        Raises:
          ValueError: A Tensor is known to have fewer rows.
        """
        self._read = VariableBatchReader(dataset, max_batch_size)
        self._largest = self._read(max_batch_size)
        shapes = [[max_batch_size, *t.shape[1:].as_list()] for t in tf.nest.flatten(self._largest)]
        dtypes = [tensor.dtype for tensor in tf.nest.flatten(dataset)]
        self._cache = _Cache("cached_batch", shapes, dtypes)

    def __call__(self, batch_size: Tensor | int) -> Batch:
        """Returns the first `batch_size` rows, and keeps them whenever they are used.

        Args:
          batch_size: An int, or an int Tensor []; at most `max_batch_size`.

        Raises:
          ValueError: An int is out of its range; for Tensors an op checks it.
        """
        batch = self._read(batch_size)
        size = tf.shape(tf.nest.flatten(batch)[0])[0]
        previous, stored = self._cache.exchange(tf.nest.flatten(self._largest), size)
        self._cached_batch = tf.nest.pack_sequence_as(batch, previous)
        with v1.control_dependencies([stored]):
            return tf.nest.map_structure(tf.identity, batch)


@typing.final
class IndexedBatchReader:
    """Draws examples at random, without putting them back, from data that are all in one Tensor.

    What is drawn depends on a counter among the variables, so that a resumed run goes on as an
    uninterrupted one would have.
    """

    def __init__(self, dataset: Batch, num_examples: int) -> None:
        """Makes the counter.

        Args:
          dataset: Tensors [num_examples, ...].
          num_examples: Number of examples.

        Raises:
          ValueError: A Tensor is known to have another number of rows.
        """
        self._drawing = _Drawing(dataset, num_examples)

    def __call__(self, batch_size: Tensor | int) -> Batch:
        """Returns `batch_size` different rows, structured as the dataset.

        Args:
          batch_size: An int, or an int Tensor []; at most `num_examples`.

        Raises:
          ValueError: An int is out of its range; for Tensors an op checks it.
        """
        order, size = self._drawing.draw(batch_size)
        return self._drawing.rows(order[:size])


@typing.final
class CachedIndexedReader(_CachingReader):
    """An `IndexedBatchReader` that also hands out the batch of the previous run.

    It keeps the numbers of the examples in a variable, not the examples.
    """

    def __init__(self, dataset: Batch, num_examples: int) -> None:
        """Makes the variables, without examples in them.

        Args:
          dataset: Tensors [num_examples, ...].
          num_examples: Number of examples.

        Raises:
          ValueError: A Tensor is known to have another number of rows.
        """
        self._drawing = _Drawing(dataset, num_examples)
        self._cache = _Cache("cached_indices", [[num_examples]], [tf.int32])

    def __call__(self, batch_size: Tensor | int) -> Batch:
        """Returns `batch_size` different rows, and keeps their numbers whenever they are used.

        Args:
          batch_size: An int, or an int Tensor []; at most `num_examples`.

        Raises:
          ValueError: An int is out of its range; for Tensors an op checks it.
        """
        order, size = self._drawing.draw(batch_size)
        previous, stored = self._cache.exchange([order], size)
        self._cached_batch = self._drawing.rows(previous[0])
        with v1.control_dependencies([stored]):
            return self._drawing.rows(order[:size])


class _Drawing:
    """Random orders of the rows of a dataset, a new one in each run."""

    def __init__(self, dataset: Batch, num_examples: int) -> None:
        for tensor in tf.nest.flatten(dataset):
            rows = static_size(tensor, 0)
            if rows is not None and rows != num_examples:
                raise ValueError(
                    f"Cannot draw from {num_examples} examples: Tensor {tensor.name!r} has {rows} "
                    "rows. Pass the whole dataset, and the number of its examples."
                )
        self._dataset = dataset
        self._num_examples = num_examples
        self._draws = make_counter("batch_draws")

    def draw(self, batch_size: Tensor | int) -> tuple[Tensor, Tensor | int]:
        """Returns all numbers of rows in random order, int32, and the checked batch size."""
        size = _checked_size(batch_size, self._num_examples)
        draw = read(self._draws)
        seed = stateless_seed(self._draws.op.name, draw)
        order = tf.argsort(tf.random.stateless_uniform([self._num_examples], seed))
        with v1.control_dependencies([order, assign_all([Assignment(self._draws, draw + 1)])]):
            return tf.identity(order), size

    def rows(self, indices: Tensor) -> Batch:
        """Returns these rows, structured as the dataset."""
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, indices), self._dataset)


class _Cache:
    """Rows that outlive a run, in variables with room for the largest number of them."""

    def __init__(self, name: str, shapes: Sequence[Sequence[int]], dtypes: Sequence[Any]) -> None:
        self._variables = [
            make_variable(f"{name}_{index}", *pair, initial=functools.partial(tf.zeros, *pair))
            for index, pair in enumerate(zip(shapes, dtypes, strict=True))
        ]
        self._size = make_counter(f"{name}_size")

    def exchange(
        self, values: Sequence[Tensor], size: Tensor | int
    ) -> tuple[list[Tensor], Operation]:
        """Returns what an earlier run stored, cut to its size, and an op that stores anew.

        Args:
          values: Tensors of the shapes of the variables.
          size: Number of their rows that count.
        """
        old_size = read(self._size)
        previous = [read(variable)[:old_size] for variable in self._variables]
        assignments = [Assignment(*pair) for pair in zip(self._variables, values, strict=True)]
        with v1.control_dependencies(previous):
            new_size = tf.cast(tf.identity(size), tf.int64)
            stored = assign_all([*assignments, Assignment(self._size, new_size)])
        return previous, stored


def _checked_size(batch_size: Tensor | int, largest: int) -> Tensor | int:
    """Returns a batch size that is from 1 to `largest`; that of a Tensor is checked by an op."""
    text = f"Cannot read a batch: batch_size must be from 1 to {largest}"
    if isinstance(batch_size, int):
        if not 1 <= batch_size <= largest:
            raise ValueError(f"{text}, got {batch_size}. Ask for fewer, or read larger batches.")
        return batch_size
    checks = [
        v1.debugging.assert_greater_equal(batch_size, 1, message=text),
        v1.debugging.assert_less_equal(batch_size, largest, message=text),
    ]
    with v1.control_dependencies(checks):
        return tf.identity(batch_size)
