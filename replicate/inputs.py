"""Input functions over data in memory: NumPy arrays and pandas data frames.

tf.data cuts the rows into batches. The arrays stay outside of the graph, also large ones: only row
numbers pass through the pipeline, so its position fits into a checkpoint.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from replicate._types import Nest, Tensor

v1 = tf.compat.v1

Arrays: TypeAlias = np.ndarray | Mapping[str, np.ndarray]
DataFrame: TypeAlias = Any
"""A pandas.DataFrame: pandas is not a requirement of this project."""
Series: TypeAlias = Any
InputFn: TypeAlias = Callable[[], Any]


def numpy_input_fn(
    x: Arrays,
    y: Arrays | None = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> InputFn:
    """Makes an input_fn of NumPy arrays.

    A batch may contain rows of two epochs. Only the very last batch may be smaller than the others.
    With shuffle=True, each epoch has every row once, in a new order.

    Args:
      x: Features: an array [rows, ...], or a dict of such arrays.
      y: Labels: an array, a dict of arrays, or None.
      batch_size: Rows of a batch, ≥ 1.
      num_epochs: Number of epochs, ≥ 1; None: endless.
      shuffle: True for a random order. Required.
      queue_capacity: Not used; there is no queue.
      num_threads: Not used.

    Returns:
      A function without arguments that returns a `tf.data.Dataset` of features, or of (features,
      labels).

    Raises:
      TypeError: x or y is neither an array nor a dict of arrays.
      ValueError: shuffle is not given, a dict is empty, arrays differ in their number of rows, or
        a number is out of range.
    """
    del queue_capacity, num_threads
    _check_settings("numpy_input_fn", batch_size, num_epochs, shuffle)
    features = _arrays("x", x)
    labels = None if y is None else _arrays("y", y)
    both = features if labels is None else (features, labels)
    rows = _common_rows(both)

    def input_fn() -> tf.data.Dataset:
        # Programs of TensorFlow 1 ask for the class of `tf.compat.v1`, which is one of both.
        order = v1.data.Dataset.range(rows)
        if shuffle:
            order = order.shuffle(rows)
        # Endless batches all have one size. A static size is simpler to split for towers.
        batches = order.repeat(num_epochs).batch(batch_size, drop_remainder=num_epochs is None)
        return batches.map(lambda numbers: _take(both, numbers))

    return input_fn


def pandas_input_fn(
    x: DataFrame,
    y: Series | DataFrame | None = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> InputFn:
    """Makes an input_fn of a pandas data frame.

    Args:
      x: Features. Each column becomes an entry of the dict of features, [batch], under its name.
        Names of several types are converted to strings.
      y: Labels: a series, a data frame for a dict of labels, or None. Its index must be that of x.
      batch_size: Rows of a batch, ≥ 1.
      num_epochs: Number of epochs, ≥ 1; None: endless.
      shuffle: True for a random order. Required.
      queue_capacity: Not used.
      num_threads: Not used.
      target_column: Not used.

    Returns:
      A function without arguments that returns a `tf.data.Dataset`.

    Raises:
      ImportError: pandas is not installed.
      TypeError: x is not a data frame, or y is neither a series nor a data frame.
      ValueError: The indices of x and y differ, shuffle is not given, there are no rows or columns,
        or a number is out of range.
    """
    pandas = _pandas()
    del target_column
    if not isinstance(x, pandas.DataFrame):
        raise TypeError(
            f"pandas_input_fn: x must be a pandas.DataFrame, got {type(x)}. Use numpy_input_fn "
            "for arrays."
        )
    if y is not None and not isinstance(y, (pandas.Series, pandas.DataFrame)):
        raise TypeError(
            f"pandas_input_fn: y must be a pandas.Series or a pandas.DataFrame, got {type(y)}."
        )
    if y is not None and not x.index.equals(y.index):
        raise ValueError(
            f"pandas_input_fn: x and y must have the same index, got {x.index} and {y.index}. "
            "Call reset_index(drop=True) on both if their rows correspond."
        )
    labels = _columns(y) if isinstance(y, pandas.DataFrame) else y
    return numpy_input_fn(
        _columns(x),
        labels.to_numpy() if isinstance(labels, pandas.Series) else labels,
        batch_size,
        num_epochs,
        shuffle,
        queue_capacity,
        num_threads,
    )


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        raise ImportError(
            "pandas_input_fn needs pandas, which is not installed: pip install pandas."
        ) from error


def _columns(frame: DataFrame) -> dict[Any, np.ndarray]:
    """Returns columns by name. tf.data cannot sort names of several types: they become strings."""
    columns = {name: column.to_numpy() for name, column in frame.items()}
    if len({type(name) for name in columns}) > 1:
        return {str(name): column for name, column in columns.items()}
    return columns


def _check_settings(
    function: str, batch_size: int, num_epochs: int | None, shuffle: bool | None
) -> None:
    if not isinstance(shuffle, bool):
        raise ValueError(
            f"{function}: shuffle must be given as True (to train) or False (to evaluate and "
            f"predict in order), got {shuffle!r}."
        )
    for name, value in (("batch_size", batch_size), ("num_epochs", num_epochs)):
        if value is not None and value < 1:
            raise ValueError(f"{function}: {name} must be at least 1, got {value!r}. Correct it.")


def _arrays(role: str, value: Arrays) -> Arrays:
    """Checks arrays and converts them to a form that tf.data accepts."""
    if isinstance(value, Mapping):
        if not value:
            raise ValueError(f"numpy_input_fn: {role} is an empty dict. Give it an array.")
        return {name: _array(f"{role}[{name!r}]", each) for name, each in value.items()}
    return _array(role, value)


def _array(role: str, value: np.ndarray) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"numpy_input_fn: {role} must be an array or a dict of arrays, got {type(value)}. "
            "Convert it with numpy.asarray."
        )
    if value.ndim == 0:
        raise ValueError(f"numpy_input_fn: {role} is a scalar, but needs one row per example.")
    # TensorFlow takes text other than ASCII from arrays of objects only.
    return value.astype(object) if value.dtype.kind == "U" else value


def _common_rows(arrays: Nest) -> int:
    counts = {len(array) for array in tf.nest.flatten(arrays)}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(
            "numpy_input_fn: all arrays of x and y must have the same number of rows, at least 1, "
            f"got {tf.nest.map_structure(len, arrays)}."
        )
    return counts.pop()


def _take(arrays: Nest, numbers: Tensor) -> Nest:
    """Takes the rows of these numbers from every array."""
    flat = tf.nest.flatten(arrays)
    types = [_dtype(array) for array in flat]

    def rows(numbers: np.ndarray) -> list[np.ndarray]:
        return [array[numbers] for array in flat]

    # Not stateful: a pipeline with state outside of TensorFlow could not be saved.
    taken = tf.numpy_function(rows, [numbers], types, stateful=False)
    for tensor, array in zip(taken, flat, strict=True):
        tensor.set_shape([*numbers.shape, *array.shape[1:]])
    return tf.nest.pack_sequence_as(arrays, taken)


def _dtype(array: np.ndarray) -> tf.DType:
    """Returns TensorFlow's type of an array. Objects are strings."""
    return tf.string if array.dtype.kind in "OS" else tf.as_dtype(array.dtype)
