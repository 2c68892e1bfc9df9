"""tf.contrib.summary: summaries that the graph itself writes, in the format of TensorFlow 1.

They are written by the default writer of `tf.summary`, in steps that a scope such as
`always_record_summaries` chooses. Without such a scope nothing is written.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

SummaryWriter = tf.summary.SummaryWriter
all_summary_ops = v1.summary.all_v2_summary_ops
flush = tf.summary.flush
initialize = v1.summary.initialize

_WRITERS = "replicate.compat/summary_writers"
_state = threading.local()


@contextlib.contextmanager
def _recording(condition: Any) -> Iterator[None]:
    earlier = getattr(_state, "is_chosen", False)
    _state.is_chosen = True
    try:
        with tf.summary.record_if(condition):
            yield
    finally:
        _state.is_chosen = earlier


def always_record_summaries() -> contextlib.AbstractContextManager[None]:
    """Makes a scope whose summaries are written in each step."""
    return _recording(True)


def never_record_summaries() -> contextlib.AbstractContextManager[None]:
    """Makes a scope whose summaries are not written."""
    return _recording(False)


def record_summaries_every_n_global_steps(
    n: int, global_step: Any = None
) -> contextlib.AbstractContextManager[None]:
    """Makes a scope whose summaries are written in each n-th step."""
    step = v1.train.get_or_create_global_step() if global_step is None else global_step
    return _recording(lambda: tf.equal(tf.cast(step, tf.int64) % tf.cast(n, tf.int64), 0))


def should_record_summaries() -> Any:
    """Returns a boolean, or a Tensor of it: True if summaries of this scope are written."""
    return getattr(_state, "is_chosen", False) and tf.summary.should_record_summaries()


def create_file_writer(
    logdir: str | None,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: str | None = None,
) -> Any:
    """Makes a writer of event files, which `initialize` opens.

    Args:
      logdir: Directory; None makes a writer that writes nothing.
      max_queue: Summaries that are kept before they are written.
      flush_millis: Milliseconds after which they are written.
      filename_suffix: End of the files' names.
      name: Name of the operation.
    """
    if logdir is None:
        return tf.summary.create_noop_writer()
    writer = tf.summary.create_file_writer(logdir, max_queue, flush_millis, filename_suffix, name)
    v1.add_to_collection(_WRITERS, writer.init())
    return writer


def summary_writer_initializer_op() -> list[Any]:
    """Returns the operations that open the writers of the graph."""
    return v1.get_collection(_WRITERS)


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Writes a number.

    Args:
      name: Name of the summary.
      tensor: Scalar.
      family: First part of the name, or None.
      step: Step, None for the graph's.

    Returns:
      The operation that writes.
    """
    return _write(lambda: v1.summary.scalar(name, tensor, collections=[], family=family), step)


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Writes the distribution of a tensor of numbers; the rest is as for `scalar`."""
    return _write(lambda: v1.summary.histogram(name, tensor, collections=[], family=family), step)


def image(
    name: str,
    tensor: Any,
    bad_color: Any = None,
    max_images: int = 3,
    family: str | None = None,
    step: Any = None,
) -> Any:
    """Writes pictures.

    The tensor is [batch, height, width, channels] with 1, 3 or 4 channels, uint8 or scaled;
    `max_images` of them are written. `bad_color` is left out: pixels that are not finite are red.
    The other arguments are those of `scalar`.
    """
    del bad_color
    return _write(
        lambda: v1.summary.image(name, tensor, max_images, collections=[], family=family), step
    )


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int,
    family: str | None = None,
    step: Any = None,
) -> Any:
    """Writes sounds.

    The tensor is [batch, frames] or [batch, frames, channels] in [−1, 1]; `max_outputs` of them are
    written, with `sample_rate` frames per second. The other arguments are those of `scalar`.
    """
    return _write(
        lambda: v1.summary.audio(
            name, tensor, sample_rate, max_outputs, collections=[], family=family
        ),
        step,
    )


def generic(
    name: str, tensor: Any, metadata: Any = None, family: str | None = None, step: Any = None
) -> Any:
    """Writes a tensor, with metadata for its reader; the rest is as for `scalar`."""
    tag = name if family is None else f"{family}/{name}"
    if not getattr(_state, "is_chosen", False):
        return tf.no_op()
    return tf.summary.write(tag, tensor, _step(step), metadata)


def eval_dir(model_dir: str, name: str | None = None) -> str:
    """Returns the directory of an evaluation's summaries: `eval`, or `eval_NAME`."""
    return os.path.join(model_dir, f"eval_{name}" if name else "eval")


def _step(step: Any) -> Any:
    return tf.cast(v1.train.get_or_create_global_step() if step is None else step, tf.int64)


def _write(make: Callable[[], Any], step: Any) -> Any:
    if not getattr(_state, "is_chosen", False):
        return tf.no_op()
    return tf.summary.experimental.write_raw_pb(make(), _step(step))
