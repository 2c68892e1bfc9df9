"""Receivers: the input tensors of a request, and the features made from them.

This module holds the four records that an input receiver function may return, and their checks.
The user, or `receiver_fns.py`, builds the graph from request to features.
`Estimator.export_saved_model` calls the function and passes the features to the model_fn.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Nest, Tensor
from replicate.errors import ArgumentTypeError

SINGLE_FEATURE = "feature"
SINGLE_INPUT = "input"
SINGLE_LABEL = "label"


class _Serving(NamedTuple):
    features: Nest
    receiver_tensors: dict[str, Tensor]
    receiver_tensors_alternatives: dict[str, dict[str, Tensor]] | None


class ServingInputReceiver(_Serving):
    """Input of a served model.

    Attributes:
      features: Dict of Tensors for the model_fn; a single Tensor becomes {"feature": Tensor}.
      receiver_tensors: Dict of the input Tensors of a request; a single Tensor becomes
        {"input": Tensor}.
      receiver_tensors_alternatives: Dict of further names to Tensors (or dicts of Tensors) that a
        request may fill instead. Each adds a signature "<name>:<output>" for every output.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Nest,
        receiver_tensors: Nest,
        receiver_tensors_alternatives: Mapping[str, Nest] | None = None,
    ) -> "ServingInputReceiver":
        """Checks and wraps the tensors.

        Raises:
          ValueError: Features or receiver tensors are None or empty, or a name is not a string
            (of features, neither a string nor an integer).
          TypeError: Something is not a Tensor.
        """
        return super().__new__(
            cls,
            _named("features", features, SINGLE_FEATURE),
            _named("receiver_tensors", receiver_tensors, SINGLE_INPUT),
            _alternatives(receiver_tensors_alternatives),
        )


class TensorServingInputReceiver(_Serving):
    """Input of a served model whose model_fn takes a single Tensor as features.

    Attributes:
      features: A single Tensor, passed to the model_fn unchanged.
      receiver_tensors: As in ServingInputReceiver.
      receiver_tensors_alternatives: As in ServingInputReceiver.
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Tensor,
        receiver_tensors: Nest,
        receiver_tensors_alternatives: Mapping[str, Nest] | None = None,
    ) -> "TensorServingInputReceiver":
        """Checks and wraps the tensors.

        Raises:
          ValueError: Features or receiver tensors are None or empty, or a name is not a string
            (of features, neither a string nor an integer).
          TypeError: Something is not a Tensor, or features are a dict.
        """
        if isinstance(features, Mapping):
            raise ArgumentTypeError(
                f"Cannot make a TensorServingInputReceiver: features must be a single Tensor, got "
                f"a dict of {sorted(map(str, features))}. Use ServingInputReceiver for a dict."
            )
        return super().__new__(
            cls,
            _named("features", features, SINGLE_FEATURE)[SINGLE_FEATURE],
            _named("receiver_tensors", receiver_tensors, SINGLE_INPUT),
            _alternatives(receiver_tensors_alternatives),
        )


class _Supervised(NamedTuple):
    features: Nest
    labels: Nest
    receiver_tensors: dict[str, Tensor]


class SupervisedInputReceiver(_Supervised):
    """Input of an exported graph for training or evaluation.

    Attributes:
      features: Tensor or dict of Tensors, passed to the model_fn unchanged.
      labels: Tensor or dict of Tensors, passed to the model_fn unchanged.
      receiver_tensors: Dict of the input Tensors of a request; a single Tensor becomes
        {"input": Tensor}.
    """

    __slots__ = ()

    def __new__(
        cls, features: Nest, labels: Nest, receiver_tensors: Nest
    ) -> "SupervisedInputReceiver":
        """Checks the tensors.

        Raises:
          ValueError: One of the three is None or empty, or a name is not a string (of features
            and labels, neither a string nor an integer).
          TypeError: Something is not a Tensor.
        """
        _named("features", features, SINGLE_FEATURE)
        _named("labels", labels, SINGLE_LABEL)
        named = _named("receiver_tensors", receiver_tensors, SINGLE_INPUT)
        return super().__new__(cls, features, labels, named)


class _Unsupervised(NamedTuple):
    features: Nest
    receiver_tensors: dict[str, Tensor]


class UnsupervisedInputReceiver(_Unsupervised):
    """Input of an exported graph for training or evaluation without labels.

    Attributes:
      features: Tensor or dict of Tensors, passed to the model_fn unchanged.
      receiver_tensors: As in SupervisedInputReceiver.
    """

    __slots__ = ()

    def __new__(cls, features: Nest, receiver_tensors: Nest) -> "UnsupervisedInputReceiver":
        """Checks the tensors.

        Raises:
          ValueError: One of the two is None or empty, or a name is not a string (of features,
            neither a string nor an integer).
          TypeError: Something is not a Tensor.
        """
        _named("features", features, SINGLE_FEATURE)
        return super().__new__(
            cls, features, _named("receiver_tensors", receiver_tensors, SINGLE_INPUT)
        )


def _named(field: str, value: Nest, single: str) -> dict[Any, Tensor]:
    """The value as a dict of Tensors; names of features and labels may also be integers."""
    if value is None or (isinstance(value, Mapping) and not value):
        raise ValueError(
            f"Cannot make an input receiver: {field} are {value!r}. Give a Tensor or a dict of "
            "Tensors."
        )
    named = value if isinstance(value, Mapping) else {single: value}
    may_be_int = field in ("features", "labels")
    name_types = (str, int) if may_be_int else str
    accepted = "strings or integers" if may_be_int else "strings"
    for name, tensor in named.items():
        if not isinstance(name, name_types):
            raise ValueError(
                f"Cannot make an input receiver: the names in {field} must be {accepted}, got "
                f"{name!r}. Rename it."
            )
        if not isinstance(tensor, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
            raise ArgumentTypeError(
                f"Cannot make an input receiver: {name!r} in {field} must be a Tensor, a "
                f"SparseTensor or a RaggedTensor, got {tensor!r}. Convert it with "
                "tf.convert_to_tensor."
            )
    return dict(named)


def _alternatives(value: Mapping[str, Nest] | None) -> dict[str, dict[str, Tensor]] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            "Cannot make an input receiver: receiver_tensors_alternatives must be a dict of name "
            f"to Tensors, got {value!r}. Name each alternative."
        )
    return {
        name: _named(f"receiver_tensors_alternatives[{name!r}]", tensors, SINGLE_INPUT)
        for name, tensors in value.items()
    }
