"""Export outputs: the tensors that one signature of an exported model returns.

Each class checks its tensors and translates them to the SignatureDef of a SavedModel. The inputs of
the signature come from a receiver (`receivers.py`). `replicate.estimator` builds and writes the
graph of the model. `EstimatorSpec` checks and completes its `export_outputs` with
`completed_outputs`.
"""

import abc
import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from replicate._types import Nest, Operation, Tensor
from replicate.errors import ArgumentTypeError

v1 = tf.compat.v1

SignatureDef: TypeAlias = Any
DEFAULT_SIGNATURE: str = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class ExportOutput(abc.ABC):
    """Output of one signature of an exported model."""

    @abc.abstractmethod
    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> SignatureDef:
        """Returns the SignatureDef from these inputs to this output.

        Args:
          receiver_tensors: Input tensors of a request, by their names in the request.

        Raises:
          ValueError: This kind of output cannot be computed from such inputs.
        """


@dataclasses.dataclass(frozen=True, eq=False)
class PredictOutput(ExportOutput):
    """Output of a signature with any tensors.

    Attributes:
      outputs: Dict of name to Tensor. A single Tensor becomes {"output": Tensor}. A name that is a
        tuple of strings is joined by "/".
    """

    outputs: Nest

    def __post_init__(self) -> None:
        """Turns the outputs into a dict.

        Raises:
          ValueError: The dict is empty, or a name is not a string.
          TypeError: An output is not a Tensor.
        """
        object.__setattr__(self, "outputs", _named_tensors(self, self.outputs, "output"))

    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> SignatureDef:
        """Returns a signature of the method tensorflow/serving/predict."""
        return _signature(receiver_tensors, self.outputs, tf.saved_model.PREDICT_METHOD_NAME)


@dataclasses.dataclass(frozen=True, eq=False)
class RegressionOutput(ExportOutput):
    """Output of a regression: one number for each example.

    Attributes:
      value: Floating point Tensor [batch] or [batch, 1].
    """

    value: Tensor

    def __post_init__(self) -> None:
        """Checks the value.

        Raises:
          TypeError: The value is not a floating point Tensor.
        """
        _check_kind(self, "value", self.value, "floating point", lambda dtype: dtype.is_floating)

    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> SignatureDef:
        """Returns a signature of the method tensorflow/serving/regress.

        Raises:
          ValueError: The inputs are not a single string Tensor of serialised tf.train.Examples.
        """
        examples = _single_string_input(self, receiver_tensors)
        outputs = {tf.saved_model.REGRESS_OUTPUTS: self.value}
        return _signature(examples, outputs, tf.saved_model.REGRESS_METHOD_NAME)


@dataclasses.dataclass(frozen=True, eq=False)
class ClassificationOutput(ExportOutput):
    """Output of a classification: scores, labels of classes, or both.

    Scores without labels belong to classes 0, 1, 2, ….

    Attributes:
      scores: Floating point Tensor [batch, classes], or None.
      classes: String Tensor [batch, classes], or None.
    """

    scores: Tensor | None = None
    classes: Tensor | None = None

    def __post_init__(self) -> None:
        """Checks scores and classes.

        Raises:
          ValueError: Both are None.
          TypeError: Scores are not floating point, or classes are not strings.
        """
        if self.scores is None and self.classes is None:
            raise ValueError(
                "Cannot make a ClassificationOutput: scores and classes are both None. Give one "
                "of them, or both."
            )
        if self.scores is not None:
            _check_kind(self, "scores", self.scores, "floating point", lambda d: d.is_floating)
        if self.classes is not None:
            _check_kind(self, "classes", self.classes, "string", lambda d: d == tf.string)

    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> SignatureDef:
        """Returns a signature of the method tensorflow/serving/classify.

        Raises:
          ValueError: The inputs are not a single string Tensor of serialised tf.train.Examples.
        """
        examples = _single_string_input(self, receiver_tensors)
        both = {
            tf.saved_model.CLASSIFY_OUTPUT_CLASSES: self.classes,
            tf.saved_model.CLASSIFY_OUTPUT_SCORES: self.scores,
        }
        outputs = {name: tensor for name, tensor in both.items() if tensor is not None}
        return _signature(examples, outputs, tf.saved_model.CLASSIFY_METHOD_NAME)


@dataclasses.dataclass(frozen=True, eq=False)
class _SupervisedOutput(ExportOutput):
    """Loss, predictions and metrics of a graph that also gets labels.

    Attributes:
      loss: Tensor or dict, turned into a dict with keys "loss" or "loss/<name>".
      predictions: Tensor or dict, turned into a dict with keys "predictions" or
        "predictions/<name>".
      metrics: Dict of name to (value, update), turned into a dict with keys "metrics/<name>/value"
        and "metrics/<name>/update_op".
    """

    loss: Nest = None
    predictions: Nest = None
    metrics: Mapping[str, tuple[Tensor, Operation]] | None = None

    def __post_init__(self) -> None:
        """Turns each attribute into a dict; None or an empty one becomes None.

        Raises:
          ValueError: A name is not a string.
          TypeError: A value is not a Tensor or, in metrics, not a pair of value and update.
        """
        for field in ("loss", "predictions"):
            object.__setattr__(self, field, self._prefixed(field, getattr(self, field)))
        object.__setattr__(self, "metrics", self._flat_metrics() or None)

    def _prefixed(self, field: str, value: Nest) -> dict[str, Tensor] | None:
        if value is None or (isinstance(value, Mapping) and not value):
            return None
        named = _named_tensors(self, value, field)
        return {
            name if name.startswith(field) else f"{field}/{name}": tensor
            for name, tensor in named.items()
        }

    def _flat_metrics(self) -> dict[str, Tensor]:
        flat = {}
        for name, pair in (self.metrics or {}).items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(
                    f"Cannot make {_called(self)}: metrics[{name!r}] must be a pair (value, "
                    f"update), got {pair!r}. Make it with tf.compat.v1.metrics."
                )
            prefix = f"metrics/{_joined(self, name)}"
            flat[f"{prefix}/value"] = _tensor(self, f"{name}/value", pair[0])
            flat[f"{prefix}/update_op"] = _tensor(self, f"{name}/update_op", _fetched(pair[1]))
        return flat

    def as_signature_def(self, receiver_tensors: Mapping[str, Tensor]) -> SignatureDef:
        """Returns a signature of the method for this kind of output."""
        outputs = {**(self.loss or {}), **(self.predictions or {}), **(self.metrics or {})}
        return _signature(receiver_tensors, outputs, self._method())

    @abc.abstractmethod
    def _method(self) -> str:
        """Returns the name of the method in the SignatureDef."""


@dataclasses.dataclass(frozen=True, eq=False)
class TrainOutput(_SupervisedOutput):
    """Loss, predictions and metrics of a training graph."""

    def _method(self) -> str:
        return "tensorflow/supervised/training"


@dataclasses.dataclass(frozen=True, eq=False)
class EvalOutput(_SupervisedOutput):
    """Loss, predictions and metrics of an evaluation graph."""

    def _method(self) -> str:
        return "tensorflow/supervised/eval"


def completed_outputs(
    outputs: Mapping[str, ExportOutput] | None, predictions: Nest
) -> dict[str, ExportOutput]:
    """Returns export outputs that include the default signature.

    A single output is also the default, whatever its name. Without any output, the default returns
    all predictions.

    Raises:
      ValueError: There are several outputs, and none has the name of the default signature.
    """
    if not outputs:
        is_empty = isinstance(predictions, Mapping) and not predictions
        return {} if is_empty else {DEFAULT_SIGNATURE: PredictOutput(predictions)}
    if len(outputs) == 1:
        return {**outputs, DEFAULT_SIGNATURE: next(iter(outputs.values()))}
    if DEFAULT_SIGNATURE not in outputs:
        raise ValueError(
            f"Cannot choose the default signature of the exported model: there are export_outputs "
            f"{sorted(outputs)}, and none has the name {DEFAULT_SIGNATURE!r}. Name one of them "
            "tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY."
        )
    return dict(outputs)


def check_outputs(outputs: Mapping[str, Any]) -> None:
    """Checks the export outputs of a model.

    Raises:
      TypeError: An output is not an ExportOutput.
    """
    for name, output in outputs.items():
        if not isinstance(output, ExportOutput):
            raise TypeError(
                f"Cannot make an EstimatorSpec: export_outputs[{name!r}] must be an instance of "
                f"replicate.export.ExportOutput, got {output!r}. Wrap the tensors in "
                "replicate.export.PredictOutput."
            )


def _named_tensors(output: ExportOutput, value: Nest, single: str) -> dict[str, Tensor]:
    """Returns the value as a non-empty dict of strings to Tensors."""
    named = value if isinstance(value, Mapping) else {single: value}
    if not named:
        raise ValueError(f"Cannot make {_called(output)} of an empty dict. Give it a Tensor.")
    return {_joined(output, name): _tensor(output, name, each) for name, each in named.items()}


def _joined(output: ExportOutput, name: Any) -> str:
    parts = name if isinstance(name, tuple) else (name,)
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(
            f"Cannot make {_called(output)}: the names of its tensors must be strings or tuples "
            f"of strings, got {name!r}. Rename it."
        )
    return "/".join(parts)


def _tensor(output: ExportOutput, name: Any, value: Any) -> Tensor:
    if isinstance(value, tf.Variable):
        return tf.convert_to_tensor(value)
    if not isinstance(value, tf.Tensor):
        raise ArgumentTypeError(
            f"Cannot make {_called(output)}: {name!r} must be a Tensor, got {value!r}. Convert it "
            "with tf.convert_to_tensor."
        )
    return value


def _fetched(update: Any) -> Any:
    """Returns a Tensor whose evaluation runs the update, since signatures cannot name ops."""
    if not isinstance(update, tf.Operation):
        return update
    with v1.control_dependencies([update]):
        return tf.constant(0, name="update_done")


def _check_kind(output: ExportOutput, field: str, value: Any, wanted: str, accepts: Any) -> None:
    if not (isinstance(value, tf.Tensor) and accepts(value.dtype)):
        raise ArgumentTypeError(
            f"Cannot make {_called(output)}: {field} must be a {wanted} Tensor, got {value!r}. "
            "Convert it with tf.cast or tf.as_string."
        )


def _signature(
    inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], method: str
) -> SignatureDef:
    # Unwrapped to skip TensorFlow's deprecation warning about v1 exports.
    info = inspect.unwrap(v1.saved_model.build_tensor_info)
    return v1.saved_model.build_signature_def(
        {name: info(tensor) for name, tensor in inputs.items()},
        {name: info(tensor) for name, tensor in outputs.items()},
        method,
    )


def _single_string_input(
    output: ExportOutput, receiver_tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Returns the input of a signature for regression or classification."""
    tensors = list(receiver_tensors.values())
    is_dense = [isinstance(each, tf.Tensor) for each in tensors]
    if is_dense != [True] or tensors[0].dtype != tf.string:
        raise ValueError(
            f"The signature of {_called(output)} needs a single string input of serialised "
            f"tf.train.Examples, got {dict(receiver_tensors)}. Use "
            "build_parsing_serving_input_receiver_fn, or export a PredictOutput."
        )
    return {tf.saved_model.REGRESS_INPUTS: tensors[0]}


def _called(output: ExportOutput) -> str:
    name = type(output).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
