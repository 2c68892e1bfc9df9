"""model_to_estimator: an Estimator from a compiled Keras model."""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from model_deploy.devices import local_devices
from replicate._types import Nest, Path, Tensor, Variable
from replicate.canned.model_record import ModelRecord, register_model
from replicate.canned.optimizers import checked_optimizer, resolved_optimizer
from replicate.errors import ArgumentTypeError
from replicate.estimator.estimator import Estimator
from replicate.estimator.run_config import RunConfig
from replicate.export import PredictOutput
from replicate.keras_model.batch_counts import Batch
from replicate.keras_model.batches import model_input, named_outputs
from replicate.keras_model.curvature import ACCEPTED, curvature_losses
from replicate.keras_model.initial_weights import saved_weights
from replicate.keras_model.kept_classes import kept_classes
from replicate.keras_model.losses import CompiledLosses, LossTerm, total_loss
from replicate.keras_model.metric_objects import MetricMaker
from replicate.keras_model.metrics import CompiledMetrics
from replicate.keras_model.recipe import ModelRecipe, recipe_of, variable_of, weight_names
from replicate.keras_model.tower_parts import values_in_tower
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1
log = logging.get_absl_logger()

_OWNER = "model_to_estimator"
_DEFAULT_SIGNATURE = "serving_default"


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: Path | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    model_dir: Path | None = None,
    config: RunConfig | None = None,
    checkpoint_format: str | None = None,
    metric_names_map: Mapping[str, str] | None = None,
    export_outputs: Mapping[str, Any] | None = None,
    *,
    optimizer: Any = None,
    devices: Sequence[str] | None = None,
) -> Estimator:
    """Makes an Estimator that trains, evaluates and exports a compiled Keras model.

    The model is made anew in each graph, from its configuration, and starts from the given model's
    weights; the given model is not changed. Features are a Tensor, a tuple in the order of the
    model's inputs or a dict by their names, labels the same for the outputs. With weights of the
    examples, features are {"features": ..., "sample_weights": [batch]}. Predictions are a dict by
    the names of the outputs. Evaluation gives the compiled metrics; with several outputs their
    names begin with that of the output.

    Args:
      keras_model: Compiled model of Keras 3 or tf_keras: functional, sequential, or of a class with
        `get_config`.
      keras_model_path: Path of a saved compiled model, in place of `keras_model`. It is loaded by
        `tf.keras.models.load_model`, which may run code in the file: load only what you trust.
      custom_objects: Classes and functions of your own by their names in the model's configuration.
      model_dir: Directory of checkpoints and event files; None as for `Estimator`. The initial
        weights are written into its folder "keras".
      config: Settings of the runs, None for the defaults.
      checkpoint_format: "saver" or None: checkpoints are those of `tf.compat.v1.train.Saver`.
      metric_names_map: Name in the results by name of a compiled metric.
      export_outputs: Class of `replicate.export` by name of an output, for the signatures of an
        exported model. None: one signature that predicts all outputs.
      optimizer: In place of the compiled one: as the `optimizer` of canned estimators, also
        `kfac.for_canned(...)`. None translates the compiled optimizer, see docs/howto/canned.md.
      devices: Device of each tower, such as ["/gpu:0", "/gpu:1"]; None for one tower.

    Raises:
      TypeError: It is no Keras model, or one that its configuration does not describe.
      ValueError: The model is not compiled, both or none of model and path are given, the
        optimizer cannot be translated, or another argument is unknown.
    """
    model = _the_model(keras_model, keras_model_path, custom_objects)
    _check_format(checkpoint_format)
    recipe = recipe_of(model, custom_objects)
    compiled = _compiled(model)
    names = weight_names(model, recipe)
    converted = _ConvertedModel(
        recipe,
        CompiledLosses(recipe, model.loss, compiled.get("loss_weights")),
        CompiledMetrics(
            MetricMaker(recipe),
            compiled.get("metrics"),
            compiled.get("weighted_metrics"),
            dict(metric_names_map or {}),
        ),
        checked_optimizer(_optimizer(model, optimizer), 0.0, _OWNER),
        _checked_outputs(export_outputs, recipe),
    )
    directory = _directory(model_dir, config)
    return Estimator(
        replicate_model_fn(
            converted,
            "weighted_sum" if converted.losses.are_sums else "weighted_sum_over_batch_size",
            devices or local_devices()[:1],
            uneven="weighted",
        ),
        directory,
        config,
        warm_start_from=saved_weights(model, names, directory),
    )


@dataclasses.dataclass(frozen=True)
class _ConvertedModel:
    """A model_fn that makes the Keras model.

    Attributes:
      recipe: Recipe of the model.
      losses: Compiled losses.
      metrics: Compiled metrics.
      optimizer: Optimizer as `checked_optimizer` returned it.
      export_outputs: Class of output by name of the output, or None.
    """

    recipe: ModelRecipe
    losses: CompiledLosses
    metrics: CompiledMetrics
    optimizer: Any
    export_outputs: Mapping[str, Any] | None

    def __call__(self, features: Nest, labels: Nest, mode: str) -> EstimatorSpec:
        """Builds the model in one mode."""
        with kept_classes(self.recipe.keras):
            return self._spec(features, labels, mode)

    def _spec(self, features: Nest, labels: Nest, mode: str) -> EstimatorSpec:
        model = self.recipe.make()
        recipe = self.recipe
        inputs, weights = model_input(features, recipe.inputs, recipe.input_shapes)
        outputs = named_outputs(model(inputs, training=mode == ModeKeys.TRAIN), self.recipe.outputs)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, outputs, export_outputs=self._signatures(outputs))
        terms = self.losses.terms(outputs, labels, weights)
        loss = total_loss(values_in_tower(terms, self._terms), model)
        if mode == ModeKeys.EVAL:
            metrics = self.metrics.build(outputs, labels, weights)
            return EstimatorSpec(mode, outputs, loss, eval_metric_ops=metrics)
        variables = [variable_of(weight) for weight in model.trainable_weights]
        return EstimatorSpec(mode, outputs, loss, self._train_op(loss, terms, variables))

    def _terms(self, batch: Batch) -> list[LossTerm]:
        """Makes another model, and returns the terms of its loss for a batch."""
        recipe = self.recipe
        inputs, weights = model_input(batch.features, recipe.inputs, recipe.input_shapes)
        outputs = named_outputs(recipe.make()(inputs, training=False), recipe.outputs)
        return self.losses.terms(outputs, batch.labels, weights)

    def _train_op(
        self, loss: Tensor, terms: Sequence[LossTerm], variables: Sequence[Variable]
    ) -> Any:
        def record() -> ModelRecord:
            return ModelRecord(
                curvature_losses(terms),
                (),
                tuple(variables),
                "sum" if self.losses.are_sums else "sum_over_batch_size",
                f"the Keras model, {self.losses.losses!r},",
                ACCEPTED,
            )

        register_model(self.optimizer, record)
        optimizer = resolved_optimizer(self.optimizer, 0.0, _OWNER)
        return optimizer.minimize(
            loss, v1.train.get_or_create_global_step(), var_list=list(variables)
        )

    def _signatures(self, outputs: Mapping[str, Tensor]) -> dict[str, Any]:
        if self.export_outputs is None:
            return {_DEFAULT_SIGNATURE: PredictOutput(dict(outputs))}
        signatures = {
            name: kind({name: outputs[name]} if kind is PredictOutput else outputs[name])
            for name, kind in self.export_outputs.items()
        }
        first = next(iter(signatures.values()))
        return {_DEFAULT_SIGNATURE: first, **signatures}


def _the_model(model: Any, path: Path | None, custom_objects: Mapping[str, Any] | None) -> Any:
    if (model is None) == (path is None):
        given = "neither" if model is None else "both"
        raise ValueError(
            f"{_OWNER}: give keras_model or keras_model_path, got {given}. Pass the model, or the "
            "path of a saved one."
        )
    if path is None:
        return model
    load = tf.keras.models.load_model  # noqa: TID251  # The user's own file, as documented.
    return load(os.fspath(path), custom_objects=dict(custom_objects or {}))


def _compiled(model: Any) -> Mapping[str, Any]:
    """Returns the arguments that the model was compiled with."""
    if getattr(model, "optimizer", None) is None:
        raise ValueError(
            f"{_OWNER}: the Keras model {model.name!r} is not compiled. Call "
            "model.compile(optimizer=..., loss=...) first."
        )
    # Keras 2 in graph mode does not keep the arguments, but what it made of them.
    made = {"loss_weights": getattr(model, "loss_weights", None), "metrics": _metrics(model)}
    with _described([getattr(model.optimizer, "optimizer", None), *tf.nest.flatten(model.loss)]):
        return dict(model.get_compile_config() or made)


@contextlib.contextmanager
def _described(objects: Sequence[Any]) -> Iterator[None]:
    """Lets Keras describe objects that have neither a configuration nor a name, inside the context.

    They are optimizers of `tf.compat.v1.train` and losses such as a `functools.partial`.
    """
    known = (str, type(None))
    lacking = [
        each
        for each in objects
        if not (isinstance(each, known) or hasattr(each, "get_config") or hasattr(each, "__name__"))
    ]
    for each in lacking:
        each.get_config = dict
    try:
        yield
    finally:
        for each in lacking:
            del each.get_config


def _metrics(model: Any) -> dict[str, list[Any]]:
    """Returns the metric objects of a model by output; their names begin with that of it."""
    names = list(getattr(model, "output_names", None) or ())
    metrics = list(getattr(model, "metrics", ()))
    if len(names) < 2:
        return dict.fromkeys(names, metrics)
    return {name: [each for each in metrics if each.name.startswith(f"{name}_")] for name in names}


def _optimizer(model: Any, given: Any) -> Any:
    """Returns the optimizer to train with, in place of the compiled one if there is one.

    Keras 2 wraps an optimizer of `tf.compat.v1.train`.
    """
    if given is not None:
        return given
    wrapped = getattr(model.optimizer, "optimizer", None)
    if isinstance(wrapped, v1.train.Optimizer):
        return wrapped
    as_function = getattr(model.optimizer, "for_estimator", None)
    return model.optimizer if as_function is None else as_function()


def _check_format(checkpoint_format: str | None) -> None:
    if checkpoint_format not in (None, "saver", "checkpoint"):
        raise ValueError(
            f"{_OWNER}: checkpoint_format must be 'saver' or None, got {checkpoint_format!r}."
        )
    if checkpoint_format == "checkpoint":
        log.warning(
            "%s: checkpoint_format='checkpoint' is not there: checkpoints have the names of the "
            "variables, as with 'saver'.",
            _OWNER,
        )


def _checked_outputs(
    outputs: Mapping[str, Any] | None, recipe: ModelRecipe
) -> Mapping[str, Any] | None:
    unknown = sorted(set(outputs or ()) - set(recipe.outputs))
    if unknown:
        raise ValueError(
            f"{_OWNER}: export_outputs names {unknown}, but the outputs of the model are "
            f"{list(recipe.outputs)}. Correct the names."
        )
    return outputs


def _directory(model_dir: Path | None, config: RunConfig | None) -> str:
    if config is not None and not isinstance(config, RunConfig):
        raise ArgumentTypeError(
            f"{_OWNER}: config must be a replicate.RunConfig, got {type(config).__name__}."
        )
    given = model_dir if config is None or model_dir is not None else config.model_dir
    if given is not None:
        return os.fsdecode(given)
    directory = tempfile.mkdtemp(prefix="replicate_")
    log.warning("No model_dir given: using the temporary directory %s", directory)
    return directory
