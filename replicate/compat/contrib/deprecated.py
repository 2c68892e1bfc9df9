"""tf.contrib.deprecated: summaries whose tags are given whole, as in TensorFlow 0."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Tensor

v1 = tf.compat.v1

__all__ = [
    "audio_summary",
    "histogram_summary",
    "image_summary",
    "merge_all_summaries",
    "merge_summary",
    "scalar_summary",
]
Collections = Iterable[str] | None


def scalar_summary(
    tags: Any, values: Any, collections: Collections = None, name: str | None = None
) -> Tensor:
    """Makes a summary of numbers.

    Args:
      tags: A tag, or as many as there are values.
      values: Numbers, in the shape of the tags.
      collections: Collections of the graph for it, [GraphKeys.SUMMARIES] if None.
      name: Name of the operation.

    Returns:
      The summary, a serialized protocol buffer.
    """
    with v1.name_scope(name, "ScalarSummary", [tags, values]):
        summary = tf.raw_ops.ScalarSummary(tags=tags, values=tf.convert_to_tensor(values))
    return _collected(summary, collections)


def histogram_summary(
    tag: str, values: Any, collections: Collections = None, name: str | None = None
) -> Tensor:
    """Makes a summary of the distribution of values, numbers of any shape.

    The arguments are those of `scalar_summary`, and so is the result.
    """
    with v1.name_scope(name, "HistogramSummary", [tag, values]):
        summary = tf.raw_ops.HistogramSummary(tag=tag, values=tf.convert_to_tensor(values))
    return _collected(summary, collections)


def image_summary(
    tag: str,
    tensor: Any,
    max_images: int = 3,
    collections: Collections = None,
    name: str | None = None,
) -> Tensor:
    """Makes a summary of `max_images` images, [batch, height, width, channels].

    The tag of image i is "<tag>/image/<i>". All else is as for `scalar_summary`.
    """
    with v1.name_scope(name, "ImageSummary", [tag, tensor]):
        summary = tf.raw_ops.ImageSummary(
            tag=tag, tensor=tf.convert_to_tensor(tensor), max_images=max_images
        )
    return _collected(summary, collections)


def audio_summary(
    tag: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Collections = None,
    name: str | None = None,
) -> Tensor:
    """Makes a summary of `max_outputs` sounds in [−1, 1].

    They are [batch, frames, channels] or [batch, frames]. The tag of sound i is "<tag>/audio/<i>";
    `sample_rate` are the frames of a second. All else is as for `scalar_summary`.
    """
    with v1.name_scope(name, "AudioSummary", [tag, tensor]):
        summary = tf.raw_ops.AudioSummaryV2(
            tag=tag,
            tensor=tf.convert_to_tensor(tensor),
            sample_rate=tf.cast(sample_rate, tf.float32),
            max_outputs=max_outputs,
        )
    return _collected(summary, collections)


def merge_summary(
    inputs: Iterable[Tensor], collections: Collections = None, name: str | None = None
) -> Tensor:
    """Makes one summary of several, which is in no collection if `collections` is None."""
    with v1.name_scope(name, "MergeSummary"):
        merged = tf.raw_ops.MergeSummary(inputs=list(inputs))
    return _collected(merged, collections or [])


def merge_all_summaries(key: str = v1.GraphKeys.SUMMARIES) -> Tensor | None:
    """Makes one summary of those in the collection `key`, None if there are none."""
    summaries = v1.get_collection(key)
    return merge_summary(summaries) if summaries else None


def _collected(summary: Tensor, collections: Collections) -> Tensor:
    for name in [v1.GraphKeys.SUMMARIES] if collections is None else collections:
        v1.add_to_collection(name, summary)
    return summary
