"""Images that a trained GAN makes up, and how good they are, by their distances from real ones.

Distances are Euclidean, over the pixels. Called by `examples/gan.py`.
"""

import numpy as np
import tensorflow as tf

import replicate
from examples import gan_model, mnist

_BATCH = 500


def draw(estimator: replicate.Estimator, count: int, seed: int) -> np.ndarray:
    """Makes up images.

    Args:
      estimator: Trained with `gan_model.model_fn`.
      count: How many.
      seed: Of the noise that they are made of.

    Returns:
      float32 array [count, height, width, 1].
    """
    noise = np.random.default_rng(seed).standard_normal((count, gan_model.NOISE), np.float32)
    predictions = estimator.predict(lambda: tf.data.Dataset.from_tensor_slices(noise).batch(_BATCH))
    return np.stack([prediction["image"] for prediction in predictions])


def distances(samples: np.ndarray, data: mnist.Dataset) -> dict[str, float]:
    """Returns how far images are from the nearest of others, on average, by what is compared."""
    train, test = data.train.images, data.test.images
    return {
        "sample to image": _mean_distance(samples, train),
        "test to image": _mean_distance(test, train),
        "test to sample": _mean_distance(test, samples),
    }


def _mean_distance(images: np.ndarray, others: np.ndarray) -> float:
    """Returns the mean over `images` of the distance to the nearest of `others`."""
    rows, columns = (array.reshape(len(array), -1) for array in (images, others))
    squares = (rows**2).sum(1)[:, np.newaxis] + (columns**2).sum(1) - 2 * rows @ columns.T
    return float(np.sqrt(np.maximum(squares.min(axis=1), 0)).mean())
