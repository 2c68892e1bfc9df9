"""Clusters images of digits by K-means, on two towers, without looking at their labels.

    python -m examples.kmeans

k-means++ chooses the first centers from one batch. Then mini-batches move them: the centers change
after each pass over the images. With --full_batch each step is an iteration of Lloyd's algorithm on
all images.

Prints the mean squared distance from an image to the nearest center. To show what was found, each
cluster is named after the digit that most of its training images show; the accuracy is the share of
images that are in a cluster of their own digit. Draws the centers as images.

Reference: Sculley (2010), "Web-scale k-means clustering".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

import replicate
from examples import cli, mnist
from examples.lazy_module import LazyModule

# Imported when first used, so that --help and mistakes are answered at once.
tf = LazyModule("tensorflow")

FLAGS = flags.FLAGS
INITIALIZATIONS = ("kmeans_plus_plus", "random")
DISTANCES = ("squared_euclidean", "cosine")

_BATCH = 500


def input_fn(examples: mnist.Examples, batch_size: int, *, training: bool) -> Any:
    """Returns a dataset of points [batch, pixels]; see `mnist.input_fn`.

    Args:
      examples: Images, and labels that are dropped.
      batch_size: Images in a batch.
      training: True for an endless dataset in an order that --seed determines.
    """
    pixels = examples.images[0].size
    batches = mnist.input_fn(*examples, batch_size, training=training, seed=FLAGS.seed)
    return batches.map(lambda images, labels: tf.reshape(images, [-1, pixels]))


def make_estimator(
    num_images: int, devices: Sequence[str], progress: str
) -> replicate.KMeansClustering:
    """Makes the Estimator that the flags describe."""
    return replicate.KMeansClustering(
        FLAGS.num_clusters,
        FLAGS.model_dir,
        FLAGS.initial_clusters,
        FLAGS.distance_metric,
        use_mini_batch=not FLAGS.full_batch,
        mini_batch_steps_per_iteration=-(-num_images // FLAGS.batch_size),
        config=replicate.RunConfig(
            tf_random_seed=FLAGS.seed, progress=progress, steal_model_dir=FLAGS.steal
        ),
        devices=devices,
    )


def check_first_batch(num_images: int) -> None:
    """Raises ValueError if the first batch is too small to choose the first centers from it."""
    size = num_images if FLAGS.full_batch else FLAGS.batch_size
    if FLAGS.initial_clusters == "kmeans_plus_plus" and FLAGS.num_clusters > size:
        raise ValueError(
            f"--initial_clusters=kmeans_plus_plus chooses --num_clusters={FLAGS.num_clusters} "
            f"centers from the first batch, which has {size} images: take fewer clusters, more "
            "images in a batch, or --initial_clusters=random"
        )


def train(estimator: replicate.KMeansClustering, examples: mnist.Examples) -> None:
    """Trains up to --train_steps; config.json is written when training begins."""
    from examples.config_record import ConfigRecord  # noqa: PLC0415

    step = cli.step_of(estimator)
    cli.show_start(estimator.latest_checkpoint(), step, estimator.model_dir, FLAGS.train_steps)
    batch_size = len(examples.labels) if FLAGS.full_batch else FLAGS.batch_size
    estimator.train(
        lambda: input_fn(examples, batch_size, training=True),
        hooks=[ConfigRecord(estimator)],
        max_steps=FLAGS.train_steps,
    )


def show_results(estimator: replicate.KMeansClustering, data: mnist.Dataset) -> None:
    """Prints mean distance and accuracy on both parts of the data."""
    labels = data.train.labels
    names = majorities(clusters_of(estimator, data.train), labels, FLAGS.num_clusters)
    for part, examples in (("train", data.train), ("test", data.test)):
        count = len(examples.labels)
        score = estimator.score(lambda e=examples, n=count: input_fn(e, n, training=False))
        is_right = names[clusters_of(estimator, examples)] == examples.labels
        cli.show(f"{part} distance", f"{score / count:.3f}")
        cli.show(f"{part} accuracy", f"{is_right.mean():.3f}")


def clusters_of(estimator: replicate.KMeansClustering, examples: mnist.Examples) -> np.ndarray:
    """Returns the cluster of each image, [count]."""
    found = estimator.predict_cluster_index(lambda: input_fn(examples, _BATCH, training=False))
    return np.array(list(found))


def majorities(clusters: np.ndarray, labels: np.ndarray, num_clusters: int) -> np.ndarray:
    """Returns the most frequent label of each cluster; 0 for a cluster without members."""
    counts = np.zeros([num_clusters, mnist.CLASSES], int)
    np.add.at(counts, (clusters, labels), 1)
    return counts.argmax(axis=1)


def define_flags() -> None:
    """Defines the flags of the program."""
    flags.DEFINE_string(
        "data_dir", None, "Folder of MNIST's IDX files. Default: the bundled digits."
    )
    flags.DEFINE_string("model_dir", "runs/kmeans", "Where checkpoints, events and pictures go.")
    flags.DEFINE_integer("num_towers", None, "Default: one for each GPU, but at least 2.", 1)
    flags.DEFINE_list("devices", None, "One for each tower. Default: GPUs if enough, else CPUs.")
    flags.DEFINE_integer("num_clusters", 30, "Number of centers.", 1, cli.LARGEST_SIZE)
    flags.DEFINE_enum("initial_clusters", "kmeans_plus_plus", INITIALIZATIONS, "First centers.")
    flags.DEFINE_enum("distance_metric", "squared_euclidean", DISTANCES, "Distance to a center.")
    flags.DEFINE_bool("full_batch", False, "Take all images in each step.")
    cli.define_batch_size(360, "Images in a step, over all towers together.")
    flags.DEFINE_integer("train_steps", 120, "The step to train to.", 1)
    cli.define_seed("Of the first centers and the order of the images.")
    flags.DEFINE_enum("progress", "auto", ["auto", "bar", "log", "off"], "How progress is shown.")
    cli.define_steal()


def main() -> None:
    """Trains, measures and draws, as the flags say."""
    with cli.bad_input():
        cli.refuse_unused_flags(
            cli.flags_without_effect(
                ["batch_size"], needs="--nofull_batch", met=not FLAGS.full_batch
            )
        )
        data = mnist.load(FLAGS.data_dir)
        purpose = f"{FLAGS.num_clusters} clusters of {data.size}, {FLAGS.distance_metric}"
        kind = "full batches" if FLAGS.full_batch else "mini-batches"
        cli.claim_model_dir(FLAGS.model_dir, f"{purpose}, {kind}")

    cli.import_tensorflow()
    from examples import pictures, training  # noqa: PLC0415

    with cli.bad_input():
        plan = training.plan_towers(FLAGS.num_towers, FLAGS.devices)
        count = len(data.train.labels)
        estimator = make_estimator(count, plan.towers, FLAGS.progress)
        if estimator.latest_checkpoint() is None:
            check_first_batch(count)
    training.show_devices(plan, FLAGS.progress)
    cli.show(
        "data", f"{data.name}: {count:,} images to train on, {len(data.test.labels):,} to test on"
    )
    with cli.training_errors(estimator):
        train(estimator, data.train)
    show_results(make_estimator(count, plan.towers, "off"), data)
    cli.show("checkpoint", estimator.latest_checkpoint())
    picture = f"{estimator.model_dir}/centers.png"
    centers = estimator.cluster_centers().reshape(-1, *data.train.images.shape[1:])
    pictures.draw_samples(centers, picture, f"centers of {data.name}")
    cli.show("picture", picture)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
