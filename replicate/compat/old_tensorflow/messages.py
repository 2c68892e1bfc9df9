"""Messages of TensorFlow's protocol buffers that took more values in TensorFlow 1."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.compat.old_tensorflow.stand_in import StandIn

v1 = tf.compat.v1
_BOOLEANS = (bool, np.bool_)


class Int64List(metaclass=StandIn):
    """`tf.train.Int64List`, which also takes booleans, for 0 and 1."""

    kind = v1.train.Int64List

    @staticmethod
    def made(*, value: Iterable[Any] | None = None) -> Any:
        """Makes the message of integers and booleans.

        Raises:
          TypeError: A value is neither an integer nor a boolean.
        """
        if isinstance(value, np.ndarray):
            whole: Any = value.astype(np.int64) if value.dtype == bool else value
        else:
            whole = [int(each) if isinstance(each, _BOOLEANS) else each for each in value or ()]
        return v1.train.Int64List(value=whole)
