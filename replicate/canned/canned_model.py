"""model_fns of canned estimators: a part or two, a head, and their optimizers."""

from collections.abc import Mapping
from typing import Any

from replicate._types import ModelFn, Nest, Spec
from replicate.canned.columns.column_cache import check_features
from replicate.canned.part_optimizers import PartOptimizer
from replicate.canned.parts import Part
from replicate.spec import ModeKeys


def one_part_model_fn(head: Any, part: Part, optimizer: PartOptimizer) -> ModelFn:
    """Returns the model_fn of a head over one part.

    Of the head, only `logits_dimension` and `create_estimator_spec` are used, and
    `curvature_losses` if the optimizer asks for it.

    Raises:
      ValueError: The optimizer is none that an estimator takes.
    """
    checked = optimizer.checked()

    def model_fn(features: Mapping[str, Any], labels: Nest, mode: str, config: Any) -> Spec:
        check_features(features)
        built = part.build(features, head.logits_dimension, mode, config)
        made = None
        if mode == ModeKeys.TRAIN:
            made = checked.make(head, features, built.logits, built)
        return head.create_estimator_spec(
            features=features,
            mode=mode,
            logits=built.logits,
            labels=labels,
            optimizer=made,
            trainable_variables=built.variables,
            update_ops=built.updates,
        )

    return model_fn
