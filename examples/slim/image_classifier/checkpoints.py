"""Checkpoints to evaluate: a given one, the newest, or each new one.

Owns the wait for new checkpoints. `replicate.Estimator` reads them.
"""

from collections.abc import Iterator

import tensorflow as tf

v1 = tf.compat.v1


def newest(path: str) -> str:
    """Returns the path itself if it is a checkpoint, or the newest checkpoint of a directory.

    Raises:
      ValueError: There is none, or the path cannot be read.
    """
    try:
        found = tf.train.latest_checkpoint(path) if tf.io.gfile.isdir(path) else path
        exists = found is not None and v1.train.checkpoint_exists(found)
    except tf.errors.OpError as error:
        raise ValueError(f"Cannot read --checkpoint_path={path}: {error.message}") from error
    if not exists:
        raise ValueError(f"There is no checkpoint at {path}. Correct --checkpoint_path.")
    return str(found)


def following(folder: str, interval_secs: float, timeout_secs: float) -> Iterator[str]:
    """Yields the newest checkpoint of a folder, which need not exist yet, and then each newer one.

    They are at least `interval_secs` apart. It ends `timeout_secs` after the last; 0 waits for
    ever.
    """
    yield from tf.train.checkpoints_iterator(
        folder, min_interval_secs=interval_secs, timeout=timeout_secs or None
    )
