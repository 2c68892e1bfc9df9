"""Ready-made estimators of tf.contrib.learn, on those of `replicate`.

Their loss is the mean over the batch. Feature columns are those of tf.feature_column.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.canned.combined import DNNLinearCombinedClassifier as _CombinedClassifier
from replicate.canned.combined import DNNLinearCombinedRegressor as _CombinedRegressor
from replicate.canned.dnn import DNNClassifier as _DNNClassifier
from replicate.canned.dnn import DNNRegressor as _DNNRegressor
from replicate.canned.linear import LinearClassifier as _LinearClassifier
from replicate.canned.linear import LinearRegressor as _LinearRegressor
from replicate.compat.contrib.estimator import clip_gradients_by_norm
from replicate.compat.contrib.learn.estimator import LearnMethods

v1 = tf.compat.v1
_RATE = 0.05
_LINEAR_RATE = 0.2


class _OneOutput(LearnMethods):
    """Predictions of which programs ask for one output."""

    def _predict_output(
        self, output: str, x: Any, input_fn: Callable[..., Any] | None, settings: dict[str, Any]
    ) -> Any:
        """Returns one output of each example; `settings` are further arguments of `predict`."""
        as_iterable = settings.pop("as_iterable", True)
        found = super().predict(x, input_fn, outputs=[output], **settings)
        return _each(found, output, as_iterable)


class _Classes(_OneOutput):
    """Predictions of classifiers."""

    def predict_classes(
        self, x: Any = None, input_fn: Callable[..., Any] | None = None, **kwargs: Any
    ) -> Any:
        """Returns the class of each example; arguments as for `predict`."""
        return self._predict_output("class_ids", x, input_fn, kwargs)

    def predict_proba(
        self, x: Any = None, input_fn: Callable[..., Any] | None = None, **kwargs: Any
    ) -> Any:
        """Returns the probabilities of each example; arguments as for `predict`."""
        return self._predict_output("probabilities", x, input_fn, kwargs)

    def predict(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Returns the class of each example, or the predictions that `outputs` names."""
        if args[2:] or kwargs.get("outputs") is not None or "predict_keys" in kwargs:
            return super().predict(x, *args, **kwargs)
        return self.predict_classes(x, *args, **kwargs)


class _Scores(_OneOutput):
    """Predictions of regressors."""

    def predict_scores(
        self, x: Any = None, input_fn: Callable[..., Any] | None = None, **kwargs: Any
    ) -> Any:
        """Returns the score of each example; arguments as for `predict`."""
        return self._predict_output("predictions", x, input_fn, kwargs)

    def predict(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Returns the score of each example, or the predictions that `outputs` names."""
        if args[2:] or kwargs.get("outputs") is not None or "predict_keys" in kwargs:
            return super().predict(x, *args, **kwargs)
        return self.predict_scores(x, *args, **kwargs)


class DNNClassifier(_Classes, _DNNClassifier):
    """Classifies examples by a network of dense layers."""

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Iterable[Any],
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        **kwargs: Any,
    ) -> None:
        """Makes a `replicate.DNNClassifier`.

        Args:
          hidden_units: Units of each hidden layer.
          feature_columns: Dense columns.
          model_dir: Directory of checkpoints and event files.
          n_classes: Number of classes.
          weight_column_name: Key of the feature with the weights.
          optimizer: Optimizer, Adagrad with rate 0.05 if None.
          activation_fn: Activation of hidden layers.
          dropout: Share of a hidden layer's values that are set to 0 in training.
          gradient_clip_norm: Largest norm of the gradients together, None for any.
          enable_centered_bias: Must be False.
          config: A RunConfig.
          **kwargs: label_keys, the names of the classes. Others must be None.

        Raises:
          ValueError: An argument has no counterpart.
        """
        _DNNClassifier.__init__(
            self,
            hidden_units,
            feature_columns,
            model_dir,
            n_classes,
            weight_column_name,
            _vocabulary("DNNClassifier", enable_centered_bias, kwargs),
            _dnn_optimizer(optimizer, gradient_clip_norm),
            activation_fn,
            dropout,
            config,
        )


class DNNRegressor(_Scores, _DNNRegressor):
    """Predicts numbers by a network of dense layers."""

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Iterable[Any],
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: None = None,
        label_dimension: int = 1,
        **kwargs: Any,
    ) -> None:
        """Makes a `replicate.DNNRegressor`; arguments as for `DNNClassifier`.

        Raises:
          ValueError: An argument has no counterpart.
        """
        kwargs["feature_engineering_fn"] = feature_engineering_fn
        _vocabulary("DNNRegressor", enable_centered_bias, kwargs)
        _DNNRegressor.__init__(
            self,
            hidden_units,
            feature_columns,
            model_dir,
            label_dimension,
            weight_column_name,
            _dnn_optimizer(optimizer, gradient_clip_norm),
            activation_fn,
            dropout,
            config,
        )


class LinearClassifier(_Classes, _LinearClassifier):
    """Classifies examples by a linear model."""

    def __init__(
        self,
        feature_columns: Iterable[Any],
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        _joint_weight: bool = False,
        config: Any = None,
        **kwargs: Any,
    ) -> None:
        """Makes a `replicate.LinearClassifier`; arguments as for `DNNClassifier`.

        Without an optimizer it is Ftrl, with rate min(0.2, 1/√columns).

        Raises:
          ValueError: An argument has no counterpart.
        """
        columns = list(feature_columns)
        _LinearClassifier.__init__(
            self,
            columns,
            model_dir,
            n_classes,
            weight_column_name,
            _vocabulary("LinearClassifier", enable_centered_bias, kwargs),
            _linear_optimizer(optimizer, gradient_clip_norm, columns),
            config,
        )


class LinearRegressor(_Scores, _LinearRegressor):
    """Predicts numbers by a linear model."""

    def __init__(
        self,
        feature_columns: Iterable[Any],
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        _joint_weights: bool = False,
        config: Any = None,
        **kwargs: Any,
    ) -> None:
        """Makes a `replicate.LinearRegressor`; arguments as for `LinearClassifier`.

        Raises:
          ValueError: An argument has no counterpart.
        """
        _vocabulary("LinearRegressor", enable_centered_bias, kwargs)
        columns = list(feature_columns)
        _LinearRegressor.__init__(
            self,
            columns,
            model_dir,
            label_dimension,
            weight_column_name,
            _linear_optimizer(optimizer, gradient_clip_norm, columns),
            config,
        )


class DNNLinearCombinedClassifier(_Classes, _CombinedClassifier):
    """Classifies examples by a linear model and a network together."""

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        linear_feature_columns: Iterable[Any] | None = None,
        linear_optimizer: Any = None,
        joint_linear_weights: bool = False,
        dnn_feature_columns: Iterable[Any] | None = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        **kwargs: Any,
    ) -> None:
        """Makes a `replicate.DNNLinearCombinedClassifier`; arguments as for its two parts.

        Raises:
          ValueError: An argument has no counterpart.
        """
        columns = list(linear_feature_columns or ())
        _CombinedClassifier.__init__(
            self,
            model_dir,
            columns or None,
            _linear_optimizer(linear_optimizer, gradient_clip_norm, columns),
            dnn_feature_columns,
            _dnn_optimizer(dnn_optimizer, gradient_clip_norm),
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            n_classes,
            weight_column_name,
            _vocabulary("DNNLinearCombinedClassifier", enable_centered_bias, kwargs),
            config,
        )


class DNNLinearCombinedRegressor(_Scores, _CombinedRegressor):
    """Predicts numbers by a linear model and a network together."""

    def __init__(
        self,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        linear_feature_columns: Iterable[Any] | None = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Iterable[Any] | None = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        config: Any = None,
        **kwargs: Any,
    ) -> None:
        """Makes a `replicate.DNNLinearCombinedRegressor`; arguments as for its two parts.

        Raises:
          ValueError: An argument has no counterpart.
        """
        _vocabulary("DNNLinearCombinedRegressor", enable_centered_bias, kwargs)
        columns = list(linear_feature_columns or ())
        _CombinedRegressor.__init__(
            self,
            model_dir,
            columns or None,
            _linear_optimizer(linear_optimizer, gradient_clip_norm, columns),
            dnn_feature_columns,
            _dnn_optimizer(dnn_optimizer, gradient_clip_norm),
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            label_dimension,
            weight_column_name,
            config,
        )


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """Returns numeric columns for an array [examples, …], whose key is "", or a dict of arrays."""
    arrays = x if isinstance(x, dict) else {"": x}
    return [
        tf.feature_column.numeric_column(name, np.asarray(each).shape[1:] or (1,))
        for name, each in sorted(arrays.items())
    ]


def _vocabulary(name: str, centered_bias: bool, more: dict[str, Any]) -> Any:
    """Returns label_keys, and refuses all other arguments."""
    label_keys = more.pop("label_keys", None)
    given = sorted(each for each, value in more.items() if value is not None)
    if centered_bias:
        given.append("enable_centered_bias")
    if given:
        raise ValueError(f"{name} got {given}, which have no counterpart: leave them out.")
    return label_keys


def _dnn_optimizer(optimizer: Any, clip_norm: float | None) -> Any:
    default = optimizer is None

    def make() -> Any:
        made = v1.train.AdagradOptimizer(_RATE) if default else optimizer
        made = made() if not isinstance(made, v1.train.Optimizer) and callable(made) else made
        return clip_gradients_by_norm(made, clip_norm)

    if clip_norm is not None and not isinstance(optimizer, str):
        return make
    return (lambda: v1.train.AdagradOptimizer(_RATE)) if default else optimizer


def _linear_optimizer(optimizer: Any, clip_norm: float | None, columns: list[Any]) -> Any:
    if optimizer is None and columns:
        rate = min(_LINEAR_RATE, 1 / len(columns) ** 0.5)
        optimizer = lambda: v1.train.FtrlOptimizer(rate)  # noqa: E731
    if clip_norm is None or optimizer is None:
        return optimizer or "Ftrl"
    return _dnn_optimizer(optimizer, clip_norm)


def _each(found: Iterator[Any], key: str, as_iterable: bool) -> Any:
    values = (each[key] if np.size(each[key]) > 1 else each[key][0] for each in found)
    return values if as_iterable else list(values)
