"""Export strategies, and the functions that give the inputs of an exported model."""

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from replicate.estimator.estimator import Estimator
from replicate.export import (
    ServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
)

v1 = tf.compat.v1


class InputFnOps(NamedTuple):
    """Inputs of an exported model: features by their keys, and placeholders by their names."""

    features: Any
    labels: Any
    default_inputs: Any


class ExportStrategy(NamedTuple):
    """A way of exporting a model.

    Attributes:
      name: Name of the folder below "<model_dir>/export".
      export_fn: Function (estimator, export_dir_base[, checkpoint_path[, eval_result]]) that
        returns the path of the export, or None.
      strip_default_attrs: Not used.
    """

    name: str
    export_fn: Callable[..., Any]
    strip_default_attrs: bool | None = None

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str | None = None,
        eval_result: Mapping[str, Any] | None = None,
    ) -> Any:
        """Exports a checkpoint, None for the newest, and returns what export_fn does."""
        known = self.export_fn.__code__.co_varnames if hasattr(self.export_fn, "__code__") else ()
        more = {"checkpoint_path": checkpoint_path, "eval_result": eval_result}
        given = {name: value for name, value in more.items() if name in known}
        return self.export_fn(estimator, export_path, **given)


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    strip_default_attrs: bool | None = None,
) -> ExportStrategy:
    """Makes a strategy that exports a SavedModel.

    Args:
      serving_input_fn: Returns `InputFnOps` or a ServingInputReceiver.
      default_output_alternative_key: Must be None for estimators of tf.estimator; not used.
      assets_extra: Paths of files by their paths below "assets.extra".
      as_text: True for a text file.
      exports_to_keep: Number of exports that stay, None for all.
      strip_default_attrs: Not used.

    Returns:
      A strategy of the name "Servo".
    """
    del default_output_alternative_key

    def export_fn(
        estimator: Estimator, export_dir_base: str, checkpoint_path: str | None = None
    ) -> Any:
        path = estimator.export_saved_model(
            export_dir_base,
            receiver_fn(serving_input_fn),
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
        )
        _keep_newest(export_dir_base, exports_to_keep)
        return path

    return ExportStrategy("Servo", export_fn, strip_default_attrs)


def receiver_fn(serving_input_fn: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a function that gives a ServingInputReceiver in place of `InputFnOps`."""

    def function() -> Any:
        inputs = serving_input_fn()
        if isinstance(inputs, InputFnOps):
            return ServingInputReceiver(inputs.features, inputs.default_inputs)
        return inputs

    return function


def build_parsing_serving_input_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Makes a function that parses serialised tf.train.Examples, the input "examples"."""
    return _ops(build_parsing_serving_input_receiver_fn(feature_spec, default_batch_size))


def build_default_serving_input_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Makes a function whose inputs are features by their keys, whose shapes and types count."""
    return _ops(build_raw_serving_input_receiver_fn(features, default_batch_size))


def _ops(function: Callable[[], Any]) -> Callable[[], InputFnOps]:
    def serving_input_fn() -> InputFnOps:
        receiver = function()
        return InputFnOps(receiver.features, None, receiver.receiver_tensors)

    return serving_input_fn


def _keep_newest(folder: str, count: int | None) -> None:
    if count is None:
        return
    exports = sorted((name for name in os.listdir(folder) if name.isdecimal()), key=int)
    for name in exports[: max(0, len(exports) - count)]:
        shutil.rmtree(os.path.join(folder, name))
