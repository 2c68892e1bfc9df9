"""The base class of layers: their calls, in scopes that they take, and their arguments.

A layer takes a variable scope when it is first called, or when it is made by a function of
`tf.layers` with a name. Its variables are those of `tf.compat.v1.get_variable` in that scope: so
scopes with reuse, initializers, partitioners, regularizers and custom getters reach them.
"""

import copy
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.compat.layers import by_name
from replicate.compat.layers.input_spec import check_inputs
from replicate.compat.layers.records import Call
from replicate.compat.layers.weights import WithWeights

v1 = tf.compat.v1
_UNUSED = frozenset({"autocast", "batch_input_shape", "batch_size", "dynamic", "input_shape"})
"""Arguments of Keras' layers that have no effect on a layer in a graph."""


class Layer(WithWeights):
    """Base class of layers, also for those of programs.

    A subclass makes its variables in `build(input_shape)` by `add_weight`, and computes its outputs
    in `call(inputs)`. Calling the layer builds it the first time.

    Attributes:
      name: Name of the layer, that of the class with a number if none was given.
      built: True after `build`.
      trainable: False to keep the variables from being trained.
      input_spec: An `InputSpec` for the inputs, a list of them, or None.
      activity_regularizer: Function of an output to a loss, or None.
      stateful: True if updates count although the layer is not trainable.
      supports_masking: Kept for programs that set it.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> "Layer":
        """Makes a layer that knows its arguments, for `get_config`."""
        layer = super().__new__(cls)
        object.__setattr__(layer, "_given", (args, kwargs))
        return layer

    def __init__(
        self, trainable: bool = True, name: Any = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        """Makes a layer without variables.

        Args:
          trainable: False to keep its variables from being trained.
          name: Name of its variable scope; made unique there if it is taken.
          dtype: Type of its variables; None for that of the first inputs.
          **kwargs: `_scope` and `_reuse` of the functions of tf.layers, `activity_regularizer`, and
            arguments of Keras' layers that have no effect here.

        Raises:
          TypeError: Another argument was given.
        """
        place = {"scope": kwargs.pop("_scope", None), "reuse": kwargs.pop("_reuse", None)}
        super().__init__(dtype=dtype, trainable=trainable, name=name, **place)
        self.activity_regularizer = by_name.regularizer(kwargs.pop("activity_regularizer", None))
        unknown = sorted(kwargs.keys() - _UNUSED)
        if unknown:
            raise TypeError(f"{type(self).__name__} takes no argument {unknown[0]!r}.")
        self.input_spec: Any = None
        self.supports_masking = False

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make such a layer again, as they were given.

        They are those of the class, with its defaults, and the layer's `name`, `trainable` and
        `dtype`.
        """
        args, kwargs = self._given
        signature = inspect.signature(type(self).__init__)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        config: dict[str, Any] = {}
        for name, value in list(bound.arguments.items())[1:]:
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                config.update(value)
            elif kind is not inspect.Parameter.VAR_POSITIONAL:
                config[name] = value
        own = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype}
        return {name: config[name] for name in config if not name.startswith("_")} | own

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Layer":
        """Returns a layer without variables, made from what `get_config` returned."""
        return cls(**config)

    @property
    def input(self) -> Any:
        """Inputs of the only call. Raises AttributeError if there is not exactly one."""
        return self._records.only_call(self.name, "input").inputs

    @property
    def output(self) -> Any:
        """Outputs of the only call. Raises AttributeError if there is not exactly one."""
        return self._records.only_call(self.name, "output").outputs

    @property
    def input_shape(self) -> Any:
        """Shape of the inputs, a tuple. Raises AttributeError without calls of one shape."""
        return self._records.only_shape(self.name, "input_shape", "inputs")

    @property
    def output_shape(self) -> Any:
        """Shape of the outputs, a tuple. Raises AttributeError without calls of one shape."""
        return self._records.only_shape(self.name, "output_shape", "outputs")

    def build(self, input_shape: Any) -> None:
        """Makes the variables for inputs of a shape. Here it makes none."""
        del input_shape
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Computes the outputs. Here they are the inputs."""
        del args, kwargs
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the outputs for inputs of a shape.

        Raises:
          NotImplementedError: The class does not tell.
        """
        raise NotImplementedError(f"{type(self).__name__} has no compute_output_shape.")

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the layer."""
        return self(inputs, *args, **kwargs)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Computes the outputs of the layer, in its scope, and builds it the first time.

        Args:
          inputs: Tensor, or a nest of Tensors and arrays.
          *args: Further arguments of `call`.
          **kwargs: Further arguments of `call`. `scope` is the variable scope to take.

        Returns:
          What `call` returns.

        Raises:
          ValueError: Eager execution is on, the inputs do not fit, or `call` returns None.
        """
        self._check_graph_mode()
        scope = kwargs.pop("scope", None)
        if "scope" in inspect.signature(self.call).parameters:
            kwargs["scope"] = scope
        self._take_scope(scope)
        with self._entered() as name_scope, v1.name_scope(name_scope):
            tensors = tf.nest.map_structure(_as_tensor, inputs)
            check_inputs(self.name, self.input_spec, tensors)
            if not self.built:
                self._build_for(tensors)
            outputs = self.call(tensors, *args, **kwargs)
            if outputs is None:
                raise ValueError(f"{type(self).__name__}.call returned None: it returns Tensors.")
            self._regularize_activity(outputs)
            self._collect_updates()
        self._records.calls.append(Call(tensors, outputs))
        return outputs

    def _build_for(self, inputs: Any) -> None:
        leaves = [each for each in tf.nest.flatten(inputs) if hasattr(each, "dtype")]
        if self._dtype is None and leaves:
            self._dtype = leaves[0].dtype.base_dtype.name
        has_shapes = all(hasattr(each, "shape") for each in tf.nest.flatten(inputs))
        shapes = tf.nest.map_structure(lambda each: each.shape, inputs) if has_shapes else None
        self.build(shapes)
        self.built = True

    def _regularize_activity(self, outputs: Any) -> None:
        for output in tf.nest.flatten(outputs) if self.activity_regularizer is not None else ():
            with v1.name_scope("ActivityRegularizer"):
                loss = self.activity_regularizer(output)
                self.add_loss(loss / tf.cast(tf.shape(output)[0], loss.dtype))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Layer":
        """Returns a copy that shares graph, scope and what lies in the graph."""
        new = type(self).__new__(type(self))
        records = self._records.copy()
        shared = [self._graph, self._scope, *records.trained, *records.fixed]
        shared += _in_graph(vars(self))
        memo.update({id(each): each for each in shared})
        memo.update({id(self): new, id(self._records): records})
        for name, value in vars(self).items():
            object.__setattr__(new, name, copy.deepcopy(value, memo))
        return new


def _as_tensor(value: Any) -> Any:
    return tf.convert_to_tensor(value) if isinstance(value, np.ndarray | np.generic) else value


def _in_graph(value: Any) -> Iterator[Any]:
    """Yields what lies in the graph, in dicts, lists and tuples inside of each other."""
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _in_graph(each)
    elif isinstance(value, tf.Tensor | tf.Variable | tf.Operation) or hasattr(value, "as_tensor"):
        yield value
