"""Parts that the classification heads share: chosen classes, thresholds and signatures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.measures import accuracy_at, precision, recall
from replicate.canned.heads.task import Examples, TaskMetric
from replicate.canned.heads.vocabulary import Vocabulary
from replicate.export.outputs import (
    DEFAULT_SIGNATURE,
    ClassificationOutput,
    ExportOutput,
    PredictOutput,
)

CLASSIFICATION = "classification"
REGRESSION = "regression"
PREDICT = "predict"
"""Names of the signatures of a head besides the default one."""


def check_n_classes(n_classes: Any, least: int, where: str, advice: str) -> None:
    """Checks the number of classes of a head.

    Raises:
      ValueError: It is not an integer, or less than `least`.
    """
    is_count = hasattr(n_classes, "__index__") and not isinstance(n_classes, bool)
    if not is_count or n_classes < least:
        raise ValueError(
            f"Cannot make {where}: n_classes must be an integer ≥ {least}, got {n_classes!r}. "
            f"{advice}"
        )


def chosen_classes(class_logits: Tensor, vocabulary: Vocabulary) -> dict[str, Tensor]:
    """Chooses the class of each example: the one with the largest logit, the first among equals.

    Args:
      class_logits: float32 [D0, ..., DN, n_classes].
      vocabulary: Names of the classes.

    Returns:
      class_ids, int64 [D0, ..., DN, 1]; classes, string of that shape; all_class_ids, int32
      [D0, n_classes]; all_classes, string [D0, n_classes].
    """
    ids = tf.expand_dims(tf.argmax(class_logits, axis=-1), -1)
    return {
        "class_ids": ids,
        "classes": vocabulary.names_of(ids),
        "all_class_ids": vocabulary.all_ids(class_logits),
        "all_classes": vocabulary.all_names(class_logits),
    }


def class_signatures(
    predictions: Mapping[str, Tensor], all_classes: Tensor
) -> dict[str, ExportOutput]:
    """Makes the signatures of a classifier.

    Among the predictions, "probabilities" are [batch, n_classes], as are the names `all_classes`.
    """
    output = ClassificationOutput(predictions["probabilities"], all_classes)
    return {
        DEFAULT_SIGNATURE: output,
        CLASSIFICATION: output,
        PREDICT: PredictOutput(predictions),
    }


def checked_thresholds(thresholds: Iterable[float] | None, where: str) -> tuple[float, ...]:
    """Returns thresholds of the probability, numbers in (0, 1), as a tuple.

    Raises:
      ValueError: A threshold is not in (0, 1).
    """
    checked = tuple(thresholds or ())
    for threshold in checked:
        if not 0 < threshold < 1:
            raise ValueError(
                f"Cannot make {where}: thresholds must be in (0, 1), got {threshold!r}. They are "
                "probabilities above which a prediction counts as positive."
            )
    return checked


def threshold_metrics(thresholds: Sequence[float], probabilities: str) -> list[TaskMetric]:
    """Lists accuracy, precision and recall at each threshold of the prediction `probabilities`."""

    def values(examples: Examples) -> list[Tensor]:
        return [examples.labels, examples.predictions[probabilities]]

    kinds = {"accuracy": accuracy_at, "precision": precision, "recall": recall}
    return [
        TaskMetric(f"{name}/positive_threshold_{threshold:g}", make(threshold), values)
        for threshold in thresholds
        for name, make in kinds.items()
    ]
