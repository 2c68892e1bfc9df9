"""A model_fn that is written for TPUs, as one for `replicate.Estimator`.

Owns what such a model_fn finds in params, and the translation of its spec, on one device and on
towers.
"""

import functools
from typing import Any

from replicate._types import ModelFn, Spec
from replicate.batch.split import Uneven
from replicate.spec import ModeKeys
from replicate.tower.build import TowerContext, current_tower
from replicate.tpu.params import BATCH_SIZE, entry, with_entry
from replicate.tpu.spec import TPUEstimatorSpec


def without_tpu(model_fn: ModelFn, uneven: Uneven) -> ModelFn:
    """Returns a model_fn with the same arguments that builds the model for CPUs and GPUs.

    The given one finds `use_tpu`, False, in its params, and as `batch_size` the rows of its tower.
    The returned one gives an EstimatorSpec where the given one gives a TPUEstimatorSpec.

    Args:
      model_fn: The user's function.
      uneven: Treatment of batches that the number of towers does not divide.
    """

    @functools.wraps(model_fn)
    def adapted(*args: Any, **given: Any) -> Spec:
        tower = current_tower()
        if "params" in given:
            params = with_entry(given["params"], "use_tpu", False)
            if tower is not None and BATCH_SIZE in params:
                rows = _rows(entry(params, BATCH_SIZE), tower, given.get("mode"), uneven)
                params = with_entry(params, BATCH_SIZE, rows)
            given["params"] = params
        return _estimator_spec(model_fn(*args, **given), tower)

    return adapted


def _rows(batch_size: int, tower: TowerContext, mode: str | None, uneven: Uneven) -> int:
    """Returns the rows of a tower's part of a whole batch, as `replicate.batch.split` cuts it."""
    rows, rest = divmod(batch_size, tower.count)
    is_padded = mode == ModeKeys.PREDICT or uneven == "pad"
    return rows + (rest > 0 if is_padded else tower.index < rest)


def _estimator_spec(spec: Any, tower: TowerContext | None) -> Spec:
    """Returns the spec for an Estimator.

    The scaffold and the host call of towers are those of the one tower whose spec becomes that of
    all: the last one in TRAIN, otherwise the first one.
    """
    if not isinstance(spec, TPUEstimatorSpec):
        return spec
    if tower is not None:
        is_kept = tower.is_last if spec.mode == ModeKeys.TRAIN else tower.is_first
        spec = spec if is_kept else spec._replace(scaffold_fn=None, host_call=None)
    return spec.as_estimator_spec()
