"""A model_fn that is written for TPUs, as one for `replicate.Estimator`.

Owns what such a model_fn finds in params, and the translation of its spec, on one device and on
towers.
"""

import functools
from collections.abc import Callable
from typing import Any

from replicate._types import ModelFn, Spec
from replicate.batch.split import Uneven
from replicate.spec import ModeKeys
from replicate.tower.build import TowerBuild, TowerContext, current_build
from replicate.tpu.params import BATCH_SIZE, entry, with_entry
from replicate.tpu.spec import TPUEstimatorSpec


def without_tpu(model_fn: ModelFn, uneven: Uneven) -> ModelFn:
    """Returns a model_fn with the same arguments that builds the model for CPUs and GPUs.

    The given one finds `use_tpu`, False, in its params, and as `batch_size` the rows of its tower.
    The returned one gives an EstimatorSpec where the given one gives a TPUEstimatorSpec.
    """

    @functools.wraps(model_fn)
    def adapted(*args: Any, **given: Any) -> Spec:
        build = current_build()
        tower = build.tower if build else None
        if "params" in given:
            params = with_entry(given["params"], "use_tpu", False)
            splits = build is not None and not build.settings.one_batch_each
            if tower is not None and splits and BATCH_SIZE in params:
                rows = _rows(entry(params, BATCH_SIZE), tower, given.get("mode"), uneven)
                params = with_entry(params, BATCH_SIZE, rows)
            given["params"] = params
        spec = model_fn(*args, **given)
        if not isinstance(spec, TPUEstimatorSpec):
            return spec
        return (_in_tower(spec, build, tower) if build and tower else spec).as_estimator_spec()

    return adapted


def _rows(batch_size: int, tower: TowerContext, mode: str | None, uneven: Uneven) -> int:
    """Returns the rows of a tower's part of a whole batch, as `replicate.batch.split` cuts it."""
    rows, rest = divmod(batch_size, tower.count)
    is_padded = mode == ModeKeys.PREDICT or uneven == "pad"
    return rows + (rest > 0 if is_padded else tower.index < rest)


def _in_tower(spec: TPUEstimatorSpec, build: TowerBuild, tower: TowerContext) -> TPUEstimatorSpec:
    """Returns the spec of a tower, whose scaffold and host call exist once for all towers.

    They are those of the tower whose spec becomes that of all: the last one in TRAIN, otherwise the
    first one. Variables that they make belong to no tower.
    """
    is_kept = tower.is_last if spec.mode == ModeKeys.TRAIN else tower.is_first
    if not is_kept:
        return spec._replace(scaffold_fn=None, host_call=None)

    def once(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            with build.outside_towers():
                return function(*args, **kwargs)

        return called

    scaffold_fn, host_call = spec.scaffold_fn, spec.host_call
    return spec._replace(
        scaffold_fn=None if scaffold_fn is None else once(scaffold_fn),
        host_call=None if host_call is None else (once(host_call[0]), host_call[1]),
    )
