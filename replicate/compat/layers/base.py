"""The base class of layers: scopes, variables, losses and updates.

A layer takes a variable scope when it is first called, or when it is made by a function of
`tf.layers` with a name. Its variables are those of `tf.compat.v1.get_variable` in that scope: so
scopes with reuse, initializers, partitioners, regularizers and custom getters reach them.
"""

import contextlib
import copy
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from replicate.compat.layers import by_name, keras_style
from replicate.compat.layers.devices import on_device_of
from replicate.compat.layers.input_spec import check_inputs
from replicate.compat.layers.naming import snake_case, unique_name
from replicate.compat.layers.records import Call, Records

v1 = tf.compat.v1
_KEYS = v1.GraphKeys
_AUTO = tf.VariableSynchronization.AUTO
_ON_READ = tf.VariableSynchronization.ON_READ
_UNUSED = frozenset({"autocast", "batch_input_shape", "batch_size", "dynamic", "input_shape"})
"""Arguments of Keras' layers that have no effect on a layer in a graph."""


class Layer(tf.Module):
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
        scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self.activity_regularizer = by_name.regularizer(kwargs.pop("activity_regularizer", None))
        unknown = sorted(kwargs.keys() - _UNUSED)
        if unknown:
            raise TypeError(f"{type(self).__name__} takes no argument {unknown[0]!r}.")
        self._graph = v1.get_default_graph()
        self._keras_style = keras_style.is_on()
        self._set_name(name)
        self._dtype = None if dtype is None else tf.as_dtype(dtype).base_dtype.name
        self._records = Records()
        self._has_resource_variables = self._keras_style
        self._scope: Any = None
        self._is_scope_fresh = False
        self.trainable = trainable
        self.built = False
        self.input_spec: Any = None
        self.stateful = False
        self.supports_masking = False
        if scope is not None:
            with v1.variable_scope(scope) as captured:
                self._scope = captured

    def _set_name(self, name: Any) -> None:
        if isinstance(name, v1.VariableScope):
            name = name.name
        base = name or snake_case(type(self).__name__)
        self._name = name or unique_name(base, self._graph)
        self._base_name = self._name if self._keras_style else base

    @property
    def graph(self) -> Any:
        """Graph in which the layer was made."""
        return self._graph

    @property
    def scope_name(self) -> str:
        """Name of the variable scope.

        Raises:
          ValueError: The layer was not called yet, so it has no scope.
        """
        if self._scope is None:
            raise ValueError(
                f"Layer {self.name} has no scope_name before it is called for the first time."
            )
        return self._scope.name

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

    @property
    def losses(self) -> list[Any]:
        """Losses of regularizers and of `add_loss`, Tensors."""
        return list(self._records.losses)

    @property
    def updates(self) -> list[Any]:
        """Operations of `add_update`; none if the layer is neither trainable nor stateful."""
        return list(self._records.updates) if self.trainable or self.stateful else []

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

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Returns the losses that depend on inputs; with None those that depend on no inputs."""
        return self._records.dependent(self.losses, inputs)

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Returns the updates that depend on inputs; with None those that depend on no inputs."""
        return self._records.dependent(self.updates, inputs)

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Adds losses to the layer and to the collection REGULARIZATION_LOSSES.

        Args:
          losses: Tensor or list of Tensors; a function of no arguments stands for its result.
          inputs: Kept for old programs: `get_losses_for` follows the graph.
        """
        del inputs
        for loss in losses if isinstance(losses, list | tuple) else [losses]:
            value = loss() if callable(loss) else loss
            if value is not None:
                tensor = tf.convert_to_tensor(value)
                self._records.losses.append(tensor)
                _collect(_KEYS.REGULARIZATION_LOSSES, [tensor])

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Adds updates to the layer; its call adds them to the collection UPDATE_OPS.

        Args:
          updates: Operation or Tensor, or a list of them; a function of no arguments stands for its
            result.
          inputs: Kept for old programs: `get_updates_for` follows the graph.
        """
        del inputs
        for update in updates if isinstance(updates, list | tuple) else [updates]:
            value = update() if callable(update) else update
            if value is not None:
                self._records.updates.append(getattr(value, "op", value))

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
            _collect(_KEYS.UPDATE_OPS, self.updates)
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

    def _check_graph_mode(self) -> None:
        if tf.executing_eagerly():
            raise ValueError(
                f"Layer {self.name} was used in eager execution, and layers of TensorFlow 1 need a "
                "graph: call tf.compat.v1.disable_v2_behavior() at the start of the program, or "
                "use the layer within tf.Graph().as_default()."
            )

    def _take_scope(self, scope: Any) -> None:
        """Takes a variable scope if the layer has none: the given one, or one of its own name."""
        if self._scope is not None:
            return
        if self._reuse:
            context = v1.variable_scope(self._base_name if scope is None else scope)
        else:
            context = v1.variable_scope(scope, default_name=self._base_name)
        with context as captured:
            self._scope = captured
        self._is_scope_fresh = True

    @contextlib.contextmanager
    def _entered(self) -> Iterator[str]:
        """Enters the variable scope, without its name scope, whose name it gives."""
        reuse = True if self.built else self._reuse
        with v1.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as current:
            is_first, self._is_scope_fresh = self._is_scope_fresh, False
            if self._keras_style and not is_first:
                yield self._scope.name.rpartition("/")[2]
            else:
                yield current.original_name_scope

    @contextlib.contextmanager
    def _entered_for_weights(self) -> Iterator[None]:
        """Enters the variable scope and its name scope, outside of a call, too."""
        self._take_scope(None)
        reuse = True if self.built else self._reuse
        with (
            v1.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as current,
            v1.name_scope(current.original_name_scope),
        ):
            yield

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


def _parts(variable: Any) -> list[Any]:
    """Returns the parts of a partitioned variable, or the variable itself."""
    return list(variable) if hasattr(variable, "as_tensor") else [variable]


def _in_graph(value: Any) -> Iterator[Any]:
    """Yields what lies in the graph, in dicts, lists and tuples inside of each other."""
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _in_graph(each)
    elif isinstance(value, tf.Tensor | tf.Variable | tf.Operation) or hasattr(value, "as_tensor"):
        yield value


def _collect(key: str, entries: list[Any]) -> None:
    """Adds entries to a collection that are not in it."""
    known = {id(each) for each in v1.get_collection(key)}
    for entry in entries:
        if id(entry) not in known:
            v1.add_to_collection(key, entry)
