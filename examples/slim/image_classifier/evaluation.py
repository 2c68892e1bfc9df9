"""A classifier that is evaluated on all of its clones: Accuracy and Recall_5 over a whole set.

Each clone evaluates its share of each batch. The metrics use the logits of all clones, so they
depend neither on the number of clones nor on a smaller last batch.
"""

import dataclasses
from typing import Any

import tensorflow as tf

import model_deploy
import replicate
from examples.slim.image_classifier import clones as clones_of
from examples.slim.image_classifier.data_flags import FlagError

v1 = tf.compat.v1
Tensor = Any

RECALL_AT = 5
METRICS = ("Accuracy", f"Recall_{RECALL_AT}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings of an evaluation: network, devices, averages.

    Attributes:
      network: The network to evaluate.
      deployment: Its clones.
      moving_average_decay: As in training: if it is not None, the averages of the variables are
        evaluated in their place.
    """

    network: clones_of.Network
    deployment: model_deploy.DeploymentConfig
    moving_average_decay: float | None


def model_fn(
    features: Tensor, labels: Tensor, mode: str, params: EvaluationSettings
) -> replicate.EstimatorSpec:
    """Builds the graph of an evaluation on images [batch, height, width, channels]."""
    clones = clones_of.create(params.network, params.deployment, features, labels, False)
    with v1.device(params.deployment.optimizer_device()):
        logits = tf.concat([clone.outputs.logits for clone in clones], axis=0)
        return replicate.EstimatorSpec(
            mode,
            loss=v1.losses.sparse_softmax_cross_entropy(labels, logits),
            eval_metric_ops=_metrics(labels, logits),
            scaffold=v1.train.Scaffold(saver=_saver(params.moving_average_decay)),
        )


def check_averages(checkpoint: str) -> None:
    """Checks that a checkpoint holds moving averages.

    Raises:
      FlagError: It does not.
    """
    names = v1.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    if not any(name.endswith("/ExponentialMovingAverage") for name in names):
        raise FlagError(
            f"{checkpoint} has no moving averages: it was trained without --moving_average_decay. "
            "Leave that flag out."
        )


def _metrics(labels: Tensor, logits: Tensor) -> dict[str, tuple[Tensor, Any]]:
    """Shares of the images whose label is the largest logit, and among the five largest."""
    accuracy, recall = METRICS
    among = tf.math.in_top_k(labels, logits, RECALL_AT)
    return {
        accuracy: v1.metrics.accuracy(labels, tf.argmax(logits, axis=1)),
        recall: v1.metrics.mean(tf.cast(among, tf.float32)),
    }


def _saver(moving_average_decay: float | None) -> v1.train.Saver | None:
    """Loads the averages into the variables that they are averages of; None: loads plain values."""
    if moving_average_decay is None:
        return None
    averages = v1.train.ExponentialMovingAverage(moving_average_decay)
    names = averages.variables_to_restore(v1.get_collection(v1.GraphKeys.MODEL_VARIABLES))
    return v1.train.Saver(names)
