"""Variable sharing: one set of variables for all copies of a model.

`v1.variable_scope(reuse=True)` shares only variables of `get_variable`. `tf.Variable` and Keras
layers would silently make separate weights in every tower. `SharedVariables` records each variable
that the first copy makes and returns it to the later copies, in the same order. So variables of any
kind are shared, and it is an error if a copy makes different ones.

Local variables (metrics, also those of Keras, and counters of one copy) are never shared.
`replicate` uses this for towers, `model_deploy` for clones.
"""

import contextlib
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from model_deploy._types import Variable
from model_deploy.disagreement import Remedy, different_variables
from model_deploy.local_variables import is_of_one_worker

v1 = tf.compat.v1

VariableMaker = Callable[..., Variable]


@dataclasses.dataclass
class _Copy:
    """State of one copy of the model, during and after its construction."""

    index: int
    label: str
    substitute: Callable[[Variable], Variable] | None = None
    name_scope: str = ""
    taken: int = 0
    """Number of shared variables that this copy has requested, apart from `get_variable`."""
    asked: dict[str, None] = dataclasses.field(default_factory=dict)
    """Descriptions of the requested variables for errors, in order."""
    trained: dict[str, None] = dataclasses.field(default_factory=dict)
    """Names of the trainable variables that it got from `get_variable`, in order."""
    scopes: dict[str, str] = dataclasses.field(default_factory=dict)
    """Name scope of its operations, names of its substitutes → the first copy's, each with "/"."""
    renamed: dict[str, str] = dataclasses.field(default_factory=dict)
    """Names of variables that contain such a scope → names of the first copy's variables."""

    def given(self, variable: Variable) -> Variable:
        """Returns the substitute of a shared variable in this copy, or the variable itself."""
        if self.substitute is None or not isinstance(variable, tf.Variable):
            return variable  # A partitioned variable is not a tf.Variable and has no substitute.
        substitute = self.substitute(variable)
        if substitute is not variable:
            self.scopes[f"{substitute.op.name}/"] = f"{variable.op.name}/"
        return substitute


class SharedVariables:
    """Variables that several copies of a model in one graph share.

    ```
    shared = SharedVariables()
    for index in range(num_towers):
        with shared.copy(index, f"tower {index}"):
            model_fn(...)
    ```
    """

    def __init__(self) -> None:
        self._made: list[Variable] = []
        self._got: list[Variable] = []
        self._first = _Copy(0, "")
        self._first_names = ""
        """Name scope of the first copy's operations, with a slash at its end."""
        self._copy: _Copy | None = None
        self._in_get_variable = False

    @property
    def made(self) -> Sequence[Variable]:
        """Variables that the first copy made without `get_variable`, in order."""
        return tuple(self._made)

    @property
    def got(self) -> Sequence[Variable]:
        """The variables that the first copy got from `get_variable`, in order."""
        return tuple(self._got)

    @contextlib.contextmanager
    def copy(
        self,
        index: int,
        label: str,
        substitute: Callable[[Variable], Variable] | None = None,
        name_scope: str = "",
    ) -> Iterator[None]:
        """Shares variables with the copy that is built inside this context.

        Args:
          index: Number of the copy. Copy 0 comes first and makes the variables.
          label: Name of the copy in errors.
          substitute: Returns the copy's replacement of a shared variable; None means the variable
            itself.
          name_scope: Name scope of this copy only, as entered (`outer/clone_0/`). Its last part,
            `clone_0/`, is left out of the names of variables.

        Raises:
          ValueError: A later copy made more, fewer or different variables than the first.
        """
        copy = _Copy(index, label, substitute, name_scope)
        names = v1.get_default_graph().get_name_scope()
        names = f"{names}/" if names else ""
        if index == 0:
            self._first, self._first_names = copy, names
        elif names and names != self._first_names:
            copy.scopes[names] = self._first_names
        scope = v1.variable_scope(
            v1.get_variable_scope(),
            reuse=True if index else None,
            custom_getter=self._get_variable,
            auxiliary_name_scope=False,
        )
        with scope, v1.variable_creator_scope(self._create), self._building(copy):
            yield
        if index:
            self._check_complete(copy)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Stops sharing inside this context, for example for an optimizer's slots."""
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
        """Custom getter of `get_variable`, whose variables are shared by name through reuse."""
        copy = self._copy
        if copy is not None and copy.index:
            kwargs = _with_dtype_of_value(kwargs)
            name = self._name_in_first(copy, name)
        outer, self._in_get_variable = self._in_get_variable, True
        try:
            variable = getter(name, *args, **kwargs)
        except ValueError as error:
            if copy is not None and copy.index and "does not exist" in str(error):
                raise self._only_later(copy, name) from error
            if copy is not None and copy.index and "Trying to share" in str(error):
                raise self._other_kind(copy, name, str(error)) from error
            raise
        finally:
            self._in_get_variable = outer
        if copy is not None and not is_of_one_worker(kwargs):
            copy.asked[name] = None
            if kwargs.get("trainable") is not False:
                copy.trained[name] = None
            if copy.index == 0 and isinstance(variable, tf.Variable):
                self._got.append(variable)
        return copy.given(variable) if copy else variable

    def _name_in_first(self, copy: _Copy, name: str) -> str:
        """Returns the first copy's name of a variable that is named after an operation or variable.

        The average of a loss is "loss/average" in the first copy and "tower_1/loss/average" in
        another one. Numbers that made the operations' names unique may differ.
        """
        scopes = [scope for scope in copy.scopes if f"/{scope}" in f"/{name}"]
        if name in self._first.asked or not scopes:
            return name
        if name not in copy.renamed:
            plain = _plain(_moved(name, scopes[0], copy.scopes[scopes[0]]))
            taken = {*copy.asked, *copy.renamed.values()}
            free = (each for each in self._first.asked if each not in taken)
            copy.renamed[name] = next((each for each in free if _plain(each) == plain), name)
        return copy.renamed[name]

    # TensorFlow inspects the signature twice per variable and looks for this attribute first.
    _get_variable.__signature__ = inspect.signature(_get_variable)  # type: ignore[attr-defined]

    def _create(self, next_creator: VariableMaker, **kwargs: Any) -> Variable:
        """Variable creator that returns the first copy's variables to later copies."""
        copy = self._copy
        if copy is None or is_of_one_worker(kwargs):
            return next_creator(**kwargs)
        if self._in_get_variable:
            if copy.index:  # Reuse found none: the first copy did not make it.
                raise self._only_later(copy, str(kwargs.get("name")))
            return next_creator(**kwargs)
        if copy.index == 0:
            variable = _create_outside(copy.name_scope, next_creator, kwargs)
            self._made.append(variable)
            copy.asked[_described(variable.op.name, variable.shape, variable.dtype)] = None
            return variable
        return self._take(copy, kwargs)

    def _take(self, copy: _Copy, kwargs: Mapping[str, Any]) -> Variable:
        """Returns the next variable of the first copy, if it matches `kwargs`."""
        shape, dtype = _requested(kwargs)
        name = _outside(copy.name_scope, _full_name(kwargs))
        requested = _described(name, shape, dtype)
        copy.asked[requested] = None
        if copy.taken == len(self._made):
            raise self._disagreement(copy, f"it also makes {requested}", Remedy.MAKE_IT_AT_FIRST)
        variable = self._made[copy.taken]
        if not _fits(variable, shape, dtype):
            made = _described(variable.op.name, variable.shape, variable.dtype)
            remedy = _remedy_for_other(self._made[copy.taken :], name, shape, dtype)
            raise self._disagreement(copy, f"in place of {made} it makes {requested}", remedy)
        copy.taken += 1
        return copy.given(variable)

    def _check_complete(self, copy: _Copy) -> None:
        """Raises if a later copy did not make all variables of the first copy."""
        missing = [name for name in self._first.trained if name not in copy.trained]
        missing += [variable.op.name for variable in self._made[copy.taken :]]
        if missing:
            difference = f"it does not make {', '.join(missing)}"
            raise self._disagreement(copy, difference, Remedy.MAKE_IT_AGAIN)

    def _only_later(self, copy: _Copy, name: str) -> ValueError:
        """Returns the error for a name of `get_variable` that the first copy did not use."""
        made = list(self._first.asked)[len(copy.asked) :][:1]
        copy.asked[name] = None
        if made and made[0] not in copy.asked:
            difference = f"in place of {made[0]} it makes {name}"
            return self._disagreement(copy, difference, Remedy.KEEP_THE_NAME)
        return self._disagreement(copy, f"it also makes {name}", Remedy.MAKE_IT_AT_FIRST)

    def _other_kind(self, copy: _Copy, name: str, found: str) -> ValueError:
        """Returns the error for a variable of `get_variable` of another shape or type."""
        copy.asked[name] = None
        remedy = Remedy.KEEP_THE_TYPE if "dtype" in found else Remedy.KEEP_THE_SHAPE
        return self._disagreement(copy, found.rstrip("."), remedy)

    def _disagreement(self, copy: _Copy, difference: str, remedy: Remedy) -> ValueError:
        copies = [(each.label, each.asked) for each in (self._first, copy)]
        return different_variables(copies, difference, remedy)


def _remedy_for_other(
    rest: Sequence[Variable], name: str, shape: tf.TensorShape, dtype: tf.DType
) -> Remedy:
    """Returns the remedy for a variable that is not like the first of the `rest` to be shared.

    Names of Keras layers count up from copy to copy and may start with the copy's name scope, so
    neither is compared.
    """
    if not _is_namesake(rest[0], name):
        return Remedy.KEEP_THE_ORDER
    if any(_is_namesake(each, name) and _fits(each, shape, dtype) for each in rest[1:]):
        return Remedy.KEEP_THE_ORDER
    if rest[0].shape.is_compatible_with(shape):
        return Remedy.KEEP_THE_TYPE
    return Remedy.KEEP_THE_SHAPE


def _fits(variable: Variable, shape: tf.TensorShape, dtype: tf.DType) -> bool:
    fits = variable.shape.is_compatible_with(shape) and variable.dtype.base_dtype == dtype
    return bool(fits)


def _is_namesake(variable: Variable, name: str) -> bool:
    one, other = (_plain(f"/{each}") for each in (variable.op.name, name))
    return other.endswith(one)


def _create_outside(
    name_scope: str, next_creator: VariableMaker, kwargs: Mapping[str, Any]
) -> Variable:
    """Makes a variable whose name leaves out the last part of `name_scope`.

    The name is also reserved inside `name_scope`. So later operations get the same suffixes as they
    would without the scope.
    """
    inside = f"{v1.get_default_graph().get_name_scope()}/"
    if not name_scope or not inside.startswith(name_scope):
        return next_creator(**kwargs)
    name = _outside(name_scope, _full_name(kwargs, take=True))
    scope, _, name = name.rpartition("/")
    with v1.name_scope(f"{scope}/" if scope else None):
        return next_creator(**{**kwargs, "name": name})


def _full_name(kwargs: Mapping[str, Any], take: bool = False) -> str:
    """Returns the full name of a variable with these arguments; `take` also reserves the name."""
    name = kwargs.get("name") or "Variable"
    return str(v1.get_default_graph().unique_name(name, mark_as_used=take))


def _outside(name_scope: str, name: str) -> str:
    """Returns `name` without the last part of `name_scope`, if it starts with that scope."""
    if not name_scope or not name.startswith(name_scope):
        return name
    outer, slash, _ = name_scope.rstrip("/").rpartition("/")
    return outer + slash + name.removeprefix(name_scope)


def _moved(name: str, scope: str, other: str) -> str:
    """Returns a name with another scope in place of the first occurrence of `scope`."""
    return f"/{name}".replace(f"/{scope}", f"/{other}", 1).removeprefix("/")


def _plain(name: str) -> str:
    """Returns a name without the numbers that made its parts unique."""
    return re.sub(r"_\d+(?=/|$)", "", name)


def _described(name: str, shape: tf.TensorShape, dtype: tf.DType) -> str:
    return f"{name} {shape} {dtype.base_dtype.name}"


def _with_dtype_of_value(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Adds the dtype of the initial value, since reuse compares dtypes."""
    initializer = kwargs.get("initializer")
    if isinstance(initializer, tf.Tensor | np.ndarray):
        return {**kwargs, "dtype": tf.as_dtype(initializer.dtype)}
    return kwargs


def _requested(kwargs: Mapping[str, Any]) -> tuple[tf.TensorShape, tf.DType]:
    """Returns shape and dtype of the variable that these creator arguments request."""
    shape, dtype = kwargs.get("shape"), kwargs.get("dtype")
    if shape is None or dtype is None:
        initial = kwargs["initial_value"]
        initial = v1.convert_to_tensor(initial() if callable(initial) else initial, dtype=dtype)
        shape = initial.shape if shape is None else shape
        dtype = initial.dtype
    return tf.TensorShape(shape), tf.as_dtype(dtype).base_dtype
