"""Input functions of NumPy arrays, as `fit(x, y)` takes them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

_BATCH = 128
_BUFFER = 10000


def numpy_input(
    x: Any, y: Any, batch_size: int | None, epochs: int | None, shuffles: bool
) -> Callable[[], Any]:
    """Makes an input_fn of arrays, which returns a dataset.

    An array [examples, …] has the key "". A batch has 128 examples if its size is None; without
    epochs there is no end.
    """
    features = _arrays(x) if isinstance(x, Mapping) else {"": np.asarray(x)}
    labels = _arrays(y) if isinstance(y, Mapping) else None if y is None else np.asarray(y)

    def input_fn() -> Any:
        dataset = v1.data.Dataset.from_tensor_slices(
            features if labels is None else (features, labels)
        )
        if shuffles:
            dataset = dataset.shuffle(_BUFFER)
        return dataset.repeat(epochs).batch(batch_size or _BATCH)

    return input_fn


def _arrays(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in values.items()}
