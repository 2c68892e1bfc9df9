"""Sharing: one set of variables for all copies of a model, whatever makes them.

`v1.variable_scope(reuse=True)` shares what `get_variable` makes, and nothing else: `tf.Variable`
and Keras layers would silently get weights of their own in every tower. `SharedVariables` records
each variable that the first copy makes and hands it to the later copies, in order, so every way of
making a variable is shared, and a copy that asks for something else is an error.

Local variables (metrics, counters of one copy) are never shared. Called by `replicate` for towers
and by `model_deploy` for clones; it knows nothing of devices or gradients.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from model_deploy._types import Variable

v1 = tf.compat.v1

_NOT_SHARED = frozenset({v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES})

VariableMaker = Callable[..., Variable]


@dataclasses.dataclass
class _Copy:
    """The copy of the model that is being built."""

    index: int
    label: str
    substitute: Callable[[Variable], Variable] | None
    taken: int = 0
    """How many shared variables this copy has asked for, `get_variable` aside."""

    def given(self, variable: Variable) -> Variable:
        """Returns what this copy gets when it asks for a shared variable."""
        return self.substitute(variable) if self.substitute else variable


class SharedVariables:
    """The variables of one model of which several copies are built in one graph.

    ```
    shared = SharedVariables()
    for index in range(num_towers):
        with shared.copy(index, f"tower {index}"):
            model_fn(...)
    ```
    """

    def __init__(self) -> None:
        self._made: list[Variable] = []
        self._first_label = ""
        self._copy: _Copy | None = None
        self._in_get_variable = False

    @contextlib.contextmanager
    def copy(
        self,
        index: int,
        label: str,
        substitute: Callable[[Variable], Variable] | None = None,
    ) -> Iterator[None]:
        """Builds copy `index` inside this context: 0 makes the variables, the others share them.

        Args:
          index: Number of the copy; 0 comes first.
          label: What errors call this copy.
          substitute: What the copy gets in place of a shared variable, by default the variable.

        Raises:
          ValueError: A later copy made more, fewer or other variables than the first.
        """
        copy = _Copy(index, label, substitute)
        if index == 0:
            self._first_label = label
        scope = v1.variable_scope(
            v1.get_variable_scope(),
            reuse=True if index else None,
            custom_getter=self._get_variable,
            auxiliary_name_scope=False,
        )
        with scope, v1.variable_creator_scope(self._create), self._building(copy):
            yield
        if index and copy.taken != len(self._made):
            raise self._disagreement(copy, f"it made only {copy.taken} of them")

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Makes variables the ordinary way inside this context, as an optimizer's slots need."""
        with self._building(None):
            yield

    @contextlib.contextmanager
    def _building(self, copy: _Copy | None) -> Iterator[None]:
        outer, self._copy = self._copy, copy
        try:
            yield
        finally:
            self._copy = outer

    def _get_variable(
        self, getter: VariableMaker, name: str, *args: Any, **kwargs: Any
    ) -> Variable:
        """Custom getter: `get_variable` is shared by its own name, through the scope's reuse."""
        outer, self._in_get_variable = self._in_get_variable, True
        try:
            variable = getter(name, *args, **kwargs)
            return self._copy.given(variable) if self._copy else variable
        except ValueError as error:
            if self._is_later_copy() and "does not exist" in str(error):
                raise self._only_later(name) from error
            raise
        finally:
            self._in_get_variable = outer

    def _create(self, next_creator: VariableMaker, **kwargs: Any) -> Variable:
        """Variable creator: records what the first copy makes, hands it to the later ones."""
        copy = self._copy
        if copy is None or _is_local(kwargs):
            return next_creator(**kwargs)
        if self._in_get_variable:
            if copy.index:  # Reuse would have found it: nobody made it in the first copy.
                raise self._only_later(kwargs.get("name"))
            return next_creator(**kwargs)
        if copy.index == 0:
            self._made.append(next_creator(**kwargs))
            return self._made[-1]
        return self._take(copy, kwargs)

    def _take(self, copy: _Copy, kwargs: Mapping[str, Any]) -> Variable:
        if copy.taken == len(self._made):
            raise self._disagreement(copy, f"it also makes {kwargs.get('name')!r}")
        variable = self._made[copy.taken]
        shape, dtype = _requested(kwargs)
        if not variable.shape.is_compatible_with(shape) or variable.dtype.base_dtype != dtype:
            raise self._disagreement(
                copy,
                f"in place of {variable.op.name!r} {variable.shape} "
                f"{variable.dtype.base_dtype.name} it makes {kwargs.get('name')!r} {shape} "
                f"{dtype.name}",
            )
        copy.taken += 1
        return copy.given(variable)

    def _is_later_copy(self) -> bool:
        return self._copy is not None and self._copy.index > 0

    def _only_later(self, name: str | None) -> ValueError:
        label = self._copy.label if self._copy else ""
        return ValueError(
            f"Cannot share variables: {label} makes variable {name!r}, which {self._first_label} "
            f"did not make. The model function must make the same variables on every call; look "
            f"for Python randomness, or for code that runs on one call only."
        )

    def _disagreement(self, copy: _Copy, difference: str) -> ValueError:
        made = ", ".join(f"{variable.op.name} {variable.shape}" for variable in self._made)
        return ValueError(
            f"Cannot share variables: {copy.label} disagrees with {self._first_label}: "
            f"{difference}. {self._first_label} made, outside get_variable: [{made}]. The model "
            f"function must make the same variables, in the same order, on every call."
        )


def _is_local(kwargs: Mapping[str, Any]) -> bool:
    return not _NOT_SHARED.isdisjoint(kwargs.get("collections") or ())


def _requested(kwargs: Mapping[str, Any]) -> tuple[tf.TensorShape, tf.DType]:
    """Shape and type of the variable that these creator arguments ask for."""
    shape, dtype = kwargs.get("shape"), kwargs.get("dtype")
    if shape is None or dtype is None:
        initial = kwargs["initial_value"]
        initial = v1.convert_to_tensor(initial() if callable(initial) else initial, dtype=dtype)
        shape = initial.shape if shape is None else shape
        dtype = initial.dtype
    return tf.TensorShape(shape), tf.as_dtype(dtype).base_dtype
