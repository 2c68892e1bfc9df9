"""TPUEstimator: an Estimator for a model_fn that is written for TPUs, where there is none.

Owns its arguments, what input_fn and model_fn find in params, and the translation of the spec, on
one device and on towers. An input_fn reads the size of the whole batch of a mode, a model_fn the
rows of its tower. `replicate.Estimator` does everything else.
"""

import copy
import dataclasses
import functools
import operator
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from model_deploy.tracebacks import methods_show_user_frames
from replicate._types import ModelFn, Path, Spec
from replicate.batch.split import Uneven
from replicate.errors import ArgumentTypeError
from replicate.estimator.calling import check_model_fn
from replicate.estimator.estimator import Estimator
from replicate.estimator.warm_start import WarmStartSettings
from replicate.graph_mode import check_no_keras_model
from replicate.model_fn import replicate_model_fn
from replicate.spec import ModeKeys
from replicate.tower.build import TowerBuild, TowerContext, current_build
from replicate.tpu.config import RunConfig
from replicate.tpu.spec import TPUEstimatorSpec
from replicate.unmodified.marks import with_loss_reduction

BATCH_SIZE = "batch_size"


@dataclasses.dataclass(frozen=True)
class BatchSizes:
    """Rows of a whole batch in each mode, ≥ 1; None where the input_fn decides alone."""

    train: int | None
    evaluate: int | None
    predict: int | None

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
          ValueError: A size is not a positive whole number.
        """
        arguments = ("train_batch_size", "eval_batch_size", "predict_batch_size")
        for name, field in zip(arguments, dataclasses.fields(self), strict=True):
            _check_size(name, getattr(self, field.name))

    def of(self, mode: str) -> int | None:
        """Returns the rows of a batch in a mode."""
        sizes = {ModeKeys.TRAIN: self.train, ModeKeys.EVAL: self.evaluate}
        return sizes.get(mode, self.predict)


def check_params(params: Any) -> None:
    """Checks that a batch size can be added to params.

    Raises:
      ValueError: params have a batch size.
      TypeError: params are neither a dict nor HParams.
    """
    if params is None:
        return
    if not (hasattr(params, "set_hparam") or hasattr(params, "__setitem__")):
        raise ArgumentTypeError(
            "TPUEstimator: params must be a dict or HParams, to which the batch size is added, got "
            f"{params!r}. Pass a dict."
        )
    if BATCH_SIZE in params:
        raise ValueError(
            f"TPUEstimator: params must not contain {BATCH_SIZE!r}, where input_fn and model_fn "
            f"find the batch size of the mode, got {params!r}. Leave it out, and pass "
            "train_batch_size, eval_batch_size and predict_batch_size."
        )


def entry(params: Any, name: str) -> Any:
    """Returns an entry of params, a dict or HParams."""
    return getattr(params, name) if hasattr(params, "set_hparam") else params[name]


def with_entry(params: Any, name: str, value: Any) -> Any:
    """Returns a copy of params, a dict or HParams, with an entry added or replaced."""
    changed = copy.deepcopy(params)
    if not hasattr(changed, "set_hparam"):
        changed[name] = value
    elif name in changed:
        changed.set_hparam(name, value)
    else:
        changed.add_hparam(name, value)
    return changed


def _check_size(name: str, size: Any) -> None:
    try:
        is_accepted = size is None or (not isinstance(size, bool) and operator.index(size) >= 1)
    except TypeError:
        is_accepted = False
    if not is_accepted:
        raise ValueError(
            f"TPUEstimator: {name} must be a whole number >= 1 or None, got {size!r}. Correct it."
        )


Reduction = tf.compat.v1.losses.Reduction


@methods_show_user_frames
class TPUEstimator(Estimator):
    """Trains, evaluates and predicts on CPUs and GPUs with a model_fn that is written for TPUs.

    An input_fn finds the batch size of the mode in `params["batch_size"]`, if it was given. The
    model_fn finds there the rows of its tower, which are the whole batch without towers, and False
    in `params["use_tpu"]`. In exports there is no batch size.

    Batches are those of the input_fn: the last one may be smaller, and is neither padded nor
    dropped. Each step returns to the host, whatever `TPUConfig.iterations_per_loop` is.
    """

    def __init__(
        self,
        model_fn: ModelFn,
        model_dir: Path | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: WarmStartSettings | str | os.PathLike[str] | None = None,
        embedding_config_spec: Any = None,
        export_saved_model_api_version: Any = None,
        *,
        devices: Sequence[str] | None = None,
        loss_reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
        uneven: Uneven = "weighted",
        experimental_exported_model_uses_all_cores: bool = False,
        experimental_export_device_assignment: bool = False,
        experimental_embedding_config_spec: Any = None,
    ):
        """Checks and stores the arguments; builds nothing.

        Args:
          model_fn: fn(features, labels, mode, params, config) → TPUEstimatorSpec or EstimatorSpec;
            all but features are optional and passed by name.
          model_dir: As for `Estimator`.
          config: A `replicate.tpu.RunConfig`, None for the defaults.
          params: A dict or HParams without "batch_size", passed on as a copy; None: an empty dict.
          use_tpu: False. True, the default as in TensorFlow, is refused.
          train_batch_size: Rows of a whole batch in TRAIN, None to give the input_fn none.
          eval_batch_size: The same in EVAL.
          predict_batch_size: The same in PREDICT.
          batch_axis: Not used.
          eval_on_tpu: Not used.
          export_to_tpu: Not used: an exported model is for CPUs and GPUs.
          export_to_cpu: Not used.
          warm_start_from: As for `Estimator`.
          embedding_config_spec: None: tables of TPUs are refused.
          export_saved_model_api_version: Not used.
          devices: Device of each tower, such as ["/gpu:0", "/gpu:1"]; None for no towers. The
            model_fn need not wrap its optimizers.
          loss_reduction: On towers, the reduction of the examples' losses in model_fn, as for
            `replicate_model_fn`.
          uneven: With devices, the treatment of a batch that their number does not divide, as for
            `replicate_model_fn`.
          experimental_exported_model_uses_all_cores: Not used.
          experimental_export_device_assignment: Not used.
          experimental_embedding_config_spec: As embedding_config_spec.

        Raises:
          ValueError: use_tpu is True, there are tables of TPUs, a batch size is not positive,
            params have a batch size, or as for `Estimator` and `replicate_model_fn`.
          TypeError: params are neither a dict nor HParams, config is no `replicate.tpu.RunConfig`,
            or as for `Estimator` and `replicate_model_fn`.
        """
        del batch_axis, eval_on_tpu, export_to_tpu, export_to_cpu, export_saved_model_api_version
        del experimental_exported_model_uses_all_cores, experimental_export_device_assignment
        _check_no_tpu(use_tpu, embedding_config_spec, experimental_embedding_config_spec)
        check_no_keras_model("TPUEstimator", model_fn)
        check_params(params)
        check_model_fn(model_fn, params)
        self._batch_sizes = BatchSizes(train_batch_size, eval_batch_size, predict_batch_size)
        adapted = without_tpu(model_fn, uneven)
        if devices is not None:
            adapted = replicate_model_fn(
                adapted, loss_reduction, devices, uneven=uneven, wrap_optimizers=True
            )
        elif loss_reduction != Reduction.SUM_BY_NONZERO_WEIGHTS:
            adapted = with_loss_reduction(adapted, loss_reduction)
        super().__init__(adapted, model_dir, _checked_config(config), params, warm_start_from)

    def _params_with_input(self, mode: str) -> Any:
        """Returns the params with the batch size of the mode."""
        size = self._batch_sizes.of(mode)
        return self.params if size is None else with_entry(self.params, BATCH_SIZE, size)


def _check_no_tpu(use_tpu: Any, *embeddings: Any) -> None:
    if use_tpu:
        raise ValueError(
            f"TPUEstimator: use_tpu={use_tpu!r} needs a TPU, and TPUs are not supported: pass "
            "use_tpu=False to run on this machine's CPU or GPU, and devices=[...] for several."
        )
    for spec in embeddings:
        if spec is not None:
            raise ValueError(
                f"TPUEstimator: embedding_config_spec={spec!r} keeps tables on a TPU, and TPUs are "
                "not supported: leave it out, and read the columns by "
                "tf.compat.v1.feature_column.input_layer in model_fn."
            )


def _checked_config(config: Any) -> RunConfig:
    if config is None:
        return RunConfig()
    if not isinstance(config, RunConfig):
        raise ArgumentTypeError(
            f"TPUEstimator: config must be a replicate.tpu.RunConfig, got {type(config).__name__} "
            f"{config!r}. Pass None for the defaults."
        )
    return config


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
