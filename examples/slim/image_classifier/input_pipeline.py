"""From a dataset to batches: reads, decodes, preprocesses, batches and prefetches, with tf.data.

The same seed gives the same batches for any number of threads: each image has its own seed, derived
from the seed of the run and the image's position. `examples/slim/datasets` provides the images,
`examples/slim/preprocessing` prepares each of them.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from examples.slim.datasets.dataset import ImageDataset, Reading
from replicate.graph_ops.checks import batch_check

Tensor = Any
Preprocess = Callable[..., Tensor]
"""fn(image [height, width, channels], height, width, seed) -> the image for the network."""


def input_fn(
    dataset: ImageDataset,
    reading: Reading,
    preprocess: Preprocess,
    *,
    image_size: int,
    batch_size: int,
    labels_offset: int = 0,
    num_threads: int = 1,
) -> Any:
    """Makes the pipeline of a run, in the default graph.

    Args:
      dataset: The dataset to read.
      reading: Settings for reading it.
      preprocess: Turns an image into one for the network.
      image_size: Height and width of that, in pixels.
      batch_size: Images in a batch, over all clones; the last one of an evaluation may be smaller.
      labels_offset: Taken from each label, for networks without a class for the background.
      num_threads: Images that are decoded and preprocessed at the same time.

    Returns:
      A tf.data.Dataset of (images, float32 [batch, image_size, image_size, channels], labels,
      int64 [batch]).
    """

    def prepare(place: Tensor, element: Tensor) -> tuple[Tensor, Tensor]:
        image, label = dataset.decode(element)
        number = place * reading.num_shards + reading.shard_index
        own_seed = tf.stack([tf.constant(reading.seed, tf.int64), number])
        image = preprocess(image, image_size, image_size, seed=own_seed)
        return image, _checked(label, dataset.num_classes, labels_offset) - labels_offset

    return (
        dataset.elements(reading)
        .enumerate()
        .map(prepare, num_parallel_calls=num_threads, deterministic=True)
        .batch(batch_size, drop_remainder=reading.training)
        .prefetch(2)
    )


def _checked(label: Tensor, num_classes: int, labels_offset: int) -> Tensor:
    """Stops the run at a label without an output of the network."""
    is_known = tf.logical_and(label >= labels_offset, label < num_classes)
    text = (
        f"Found a label {{}}, expected {labels_offset} to {num_classes - 1}: look at the data and "
        "at --labels_offset."
    )
    with tf.control_dependencies([batch_check(is_known, text, label)]):
        return tf.identity(label)
