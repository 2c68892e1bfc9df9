"""Variables of a layer, by `tf.compat.v1.get_variable` in its scope."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.compat.layers import by_name
from replicate.compat.layers.devices import on_device_of
from replicate.compat.layers.losses import WithLosses

v1 = tf.compat.v1
_AUTO = tf.VariableSynchronization.AUTO
_ON_READ = tf.VariableSynchronization.ON_READ


class WithWeights(WithLosses):
    """A layer with variables. Those that are trained come first in its lists."""

    def __init__(self, dtype: Any, **others: Any) -> None:
        """Makes a layer without variables.

        Args:
          dtype: Type of the variables; None for that of the first inputs.
          **others: Arguments of `WithLosses`.
        """
        super().__init__(**others)
        self._dtype = None if dtype is None else tf.as_dtype(dtype).base_dtype.name
        self._has_resource_variables = self._keras_style

    @property
    def dtype(self) -> str | None:
        """Name of the type of the variables, None before it is known."""
        return self._dtype

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that are trained."""
        return list(self._records.trained) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Variables that are not trained."""
        fixed = list(self._records.fixed)
        return fixed if self.trainable else [*self._records.trained, *fixed]

    @property
    def weights(self) -> list[Any]:
        """All variables, those that are trained first."""
        return [*self.trainable_weights, *self.non_trainable_weights]

    @property
    def variables(self) -> list[Any]:
        """All variables, those that are trained first."""
        return self.weights

    @property
    def trainable_variables(self) -> list[Any]:
        """Variables that are trained."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        """Variables that are not trained."""
        return self.non_trainable_weights

    def add_weight(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        synchronization: Any = _AUTO,
        aggregation: Any = tf.VariableAggregation.NONE,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Makes a variable of the layer by `get_variable`, or takes that of the scope again.

        Args:
          name: Name of the variable in the layer's scope.
          shape: Shape, () for None.
          dtype: Type; None for that of the layer, or float32.
          initializer: Initializer or its name; None for the scope's, or Glorot's uniform one.
          regularizer: Function of the variable to a loss, which a new variable adds to the layer.
          trainable: False for a variable that is not trained; by default it is.
          constraint: Function of the variable, applied by optimizers after a step.
          use_resource: True for a resource variable; None for what the scope says.
          synchronization: As for `get_variable`.
          aggregation: As for `get_variable`.
          partitioner: Partitioner; None for the scope's.
          **kwargs: `collections`, `caching_device`, `getter` or `experimental_autocast`.

        Returns:
          The variable, a partitioned one with a partitioner.

        Raises:
          ValueError: Eager execution is on, or the scope refuses the variable.
        """
        self._check_graph_mode()
        getter = kwargs.pop("getter", None) or v1.get_variable
        kwargs.pop("experimental_autocast", None)
        is_trained = synchronization != _ON_READ if trainable is None else trainable
        created: list[bool] = []

        def note(next_creator: Any, **settings: Any) -> Any:
            created.append(True)
            return next_creator(**settings)

        with self._entered_for_weights(), v1.variable_creator_scope(note):
            variable = getter(
                name,
                shape=() if shape is None else shape,
                dtype=tf.as_dtype(dtype or self._dtype or tf.float32),
                initializer=by_name.initializer(initializer),
                trainable=is_trained and self.trainable,
                constraint=constraint,
                use_resource=use_resource or self._has_resource_variables or None,
                synchronization=synchronization,
                aggregation=aggregation,
                partitioner=partitioner,
                **kwargs,
            )
            self._regularize(name, variable, by_name.regularizer(regularizer) if created else None)
        for part in _parts(variable):
            # A custom getter of the scope may have made it one that is not trained.
            is_fixed = self.trainable and not getattr(part, "trainable", True)
            known = self._records.trained if is_trained and not is_fixed else self._records.fixed
            known.append(part)
        return variable

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Makes a variable; the old name of `add_weight`."""
        return self.add_weight(*args, **kwargs)

    def _regularize(self, name: str, variable: Any, regularizer: Any) -> None:
        for part in _parts(variable) if regularizer is not None else ():
            with v1.name_scope(f"{name}/Regularizer"), on_device_of(part):
                loss = regularizer(part)
            self.add_loss(loss)

    def count_params(self) -> int:
        """Returns the number of values of all variables.

        Raises:
          ValueError: The layer was not built.
        """
        if not self.built:
            raise ValueError(
                f"count_params of layer {self.name} was called before the layer was built: call "
                "the layer first."
            )
        return int(sum(np.prod(weight.shape.as_list(), dtype=int) for weight in self.weights))

    def get_weights(self) -> list[Any]:
        """Returns the values of all variables in the default session, as arrays.

        Raises:
          ValueError: There is no default session.
        """
        values: list[Any] = self._session("get_weights").run(self.weights)
        return values

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets all variables in the default session.

        Args:
          weights: Arrays in the order and the shapes of `get_weights`.

        Raises:
          ValueError: There is no default session, or the arrays are too few or too many, or have
            other shapes.
        """
        session = self._session("set_weights")
        shapes = [tuple(each.shape.as_list()) for each in self.weights]
        given = [np.shape(each) for each in weights]
        if given != shapes:
            raise ValueError(
                f"set_weights of layer {self.name} got arrays of shapes {given}: the variables "
                f"have shapes {shapes}."
            )
        for variable, value in zip(self.weights, weights, strict=True):
            variable.load(value, session)

    def _session(self, method: str) -> Any:
        session = v1.get_default_session()
        if session is None:
            raise ValueError(
                f"{method} of layer {self.name} needs a session: call it within `with session:`."
            )
        return session


def _parts(variable: Any) -> list[Any]:
    """Returns the parts of a partitioned variable, or the variable itself."""
    return list(variable) if hasattr(variable, "as_tensor") else [variable]
