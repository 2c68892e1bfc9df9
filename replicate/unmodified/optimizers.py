"""Optimizers that a model_fn does not wrap: gathered for all towers if asked for, or else noted.

While `heard_optimizers` is entered, an optimizer of `tf.compat.v1.train` does in a tower what
`TowerOptimizer(optimizer)` does, if the settings of the towers ask for it. Whatever trains in a
tower of several without a TowerOptimizer is noted in `TowerBuild.unwrapped`: it would train on a
part of the batch. Nothing changes outside of towers, in other graphs and in other threads.

One function on the base class of all optimizers finds their attributes meanwhile. So it covers each
subclass, also one that overrides `apply_gradients` or that is defined in a model_fn. Calls of
`super().apply_gradients` are not looked up by it and keep their meaning: they are noted by the
methods that update one variable, which the base class calls. Optimizers of Keras are heard by the
methods of their base classes.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_mode import tensorflow_variable
from replicate.tower.build import TowerBuild, current_build
from replicate.tower.workers import current_workers
from replicate.unmodified.shared_patch import SharedPatch

v1 = tf.compat.v1


@contextlib.contextmanager
def heard_optimizers() -> Iterator[None]:
    """Gathers or notes what optimizers do in towers inside the context.

    It is to be entered once a tower: a model_fn may import Keras in the first one.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_patch.entered())
        for module, patches in _keras_patches.items():
            for patch in patches if module in sys.modules else []:
                stack.enter_context(patch.entered())
        yield


def _attribute(optimizer: v1.train.Optimizer, name: str) -> Any:
    """Returns an attribute of an optimizer; in a tower, methods that know all towers."""
    found = object.__getattribute__(optimizer, name)
    if name not in _HEARD or isinstance(optimizer, TowerOptimizer):
        return found
    build = _build_of_several()
    if build is None:
        return found
    if build.settings.wraps_optimizers and name in _GATHERED:
        return _GATHERED[name](build, optimizer, found)
    return _noting(build, optimizer, found, _NOTED[name]) if name in _NOTED else found


def _build_of_several() -> TowerBuild | None:
    """Returns the current build if it is in one of several towers, or of several workers'."""
    build = current_build()
    if build is None or build.tower is None or build.is_outside:
        return None
    is_alone = build.tower.count == 1 and current_workers() is None
    return None if is_alone else build


def _gathered_application(
    build: TowerBuild, optimizer: v1.train.Optimizer, method: Callable[..., Any]
) -> Callable[..., Any]:
    return TowerOptimizer(optimizer).apply_gradients


def _gathered_gradients(
    build: TowerBuild, optimizer: v1.train.Optimizer, method: Callable[..., Any]
) -> Callable[..., Any]:
    def compute_gradients(loss: Any, *args: Any, **kwargs: Any) -> Any:
        build.add_loss(loss)
        return method(build.counted_loss(loss), *args, **kwargs)

    return compute_gradients


def _noting(
    build: TowerBuild,
    optimizer: Any,
    method: Callable[..., Any],
    trained_by: Callable[..., Iterable[Any]],
) -> Callable[..., Any]:
    """Returns a method whose calls note what they train, unless they lead to calls that do.

    A call of a TowerOptimizer gathers it.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if "grads_and_vars" in kwargs or (args and trained_by is _of_pairs):
            args, kwargs = _with_list(args, kwargs)
        before = build.call_counts, len(build.unwrapped)
        result = method(*args, **kwargs)
        if (build.call_counts, len(build.unwrapped)) == before:
            for variable in trained_by(*args, **kwargs):
                build.unwrapped.append((type(optimizer), _name(variable)))
        return result

    return call


def _with_list(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns arguments whose pairs, which may be a generator, can be read twice."""
    if args:
        return (list(args[0]), *args[1:]), kwargs
    return args, {**kwargs, "grads_and_vars": list(kwargs["grads_and_vars"])}


def _of_pairs(grads_and_vars: Iterable[tuple[Any, Any]], *args: Any, **kwargs: Any) -> list[Any]:
    return [variable for gradient, variable in grads_and_vars if gradient is not None]


def _of_update(grad: Any, variable: Any, *args: Any, **kwargs: Any) -> list[Any]:
    return [variable]


def _of_loss(
    loss: Any, global_step: Any = None, var_list: Any = None, *args: Any, **kwargs: Any
) -> list[Any]:
    return list(var_list or v1.trainable_variables())


def _of_gradients(
    grads: Iterable[Any], trainable_variables: Any = None, *args: Any, **kwargs: Any
) -> list[Any]:
    """Returns the variables of `apply` of Keras 3; without any, those of the graph."""
    if trainable_variables is None:
        return list(v1.trainable_variables())
    return _of_pairs(zip(grads, trainable_variables, strict=False))


def _name(variable: Any) -> str:
    found = tensorflow_variable(variable)
    return str(found.op.name if hasattr(found, "op") else found.name)


def _heard_keras(module: str, path: str) -> SharedPatch:
    """Makes the patch of Keras' base class of optimizers, if that Keras has it.

    All methods of Keras 3 call `apply`, those of Keras 2 `apply_gradients`.
    """

    def find() -> tuple[Any, Mapping[str, Any]]:
        kind: Any = sys.modules[module]
        for name in path.split("."):
            kind = getattr(kind, name, None)
        for method, trained_by in (("apply", _of_gradients), ("apply_gradients", _of_pairs)):
            if hasattr(kind, method):
                return kind, {method: _heard(getattr(kind, method), trained_by)}
        return kind, {}

    return SharedPatch(find)


def _heard(
    method: Callable[..., Any], trained_by: Callable[..., Iterable[Any]]
) -> Callable[..., Any]:
    @functools.wraps(method)
    def heard(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        build = _build_of_several()
        bound = functools.partial(method, optimizer)
        call = bound if build is None else _noting(build, optimizer, bound, trained_by)
        return call(*args, **kwargs)

    return heard


_GATHERED = {
    "apply_gradients": _gathered_application,
    "compute_gradients": _gathered_gradients,
}
_NOTED: Mapping[str, Callable[..., Iterable[Any]]] = {
    "apply_gradients": _of_pairs,
    "minimize": _of_loss,
    "_apply_dense": _of_update,
    "_apply_sparse_duplicate_indices": _of_update,
    "_resource_apply_dense": _of_update,
    "_resource_apply_sparse_duplicate_indices": _of_update,
}
"""Method → function that returns the variables that a call of it with these arguments trains."""

_HEARD = frozenset({*_GATHERED, *_NOTED})

_patch = SharedPatch(lambda: (v1.train.Optimizer, {"__getattribute__": _attribute}))
_keras_patches = {
    module: [
        _heard_keras(module, f"optimizers.{path}") for path in ("Optimizer", "legacy.Optimizer")
    ]
    for module in ("keras", "tf_keras")
}
"""Module, if it has been imported → patches of its classes."""
