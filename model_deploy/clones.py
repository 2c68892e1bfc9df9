"""Clones: copies of a model, each on its own device, all with the same variables.

`create_clones` calls the model function once per device, with a name scope, the devices, and the
shared variables. `optimize_clones` and `deploy` read the collections that these calls fill, by the
name scope of each clone.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from model_deploy._types import Device
from model_deploy.arguments import check_sequence, check_type
from model_deploy.config import DeploymentConfig
from model_deploy.local_variables import current_task, local_variables_on
from model_deploy.tracebacks import shows_user_frames
from model_deploy.variables import SharedVariables
from model_deploy.xla import compiled_by_xla

v1 = tf.compat.v1


class Clone(NamedTuple):
    """One copy of a model.

    Attributes:
      outputs: Return value of the model function.
      scope: Name scope of the clone, such as `clone_0/`. A single clone has the scope around the
        call of `create_clones`, or "", which means the whole graph.
      device: Device that the clone computes on.
    """

    outputs: Any
    scope: str
    device: Device


@shows_user_frames
def create_clones(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Clone]:
    """Calls a model function once for each clone.

    The first clone makes the variables (of `get_variable`, `tf.Variable` and Keras alike) on the
    parameter devices of `config`, and the other clones share them. Variable names do not depend on
    the number of clones. Each clone makes its own local variables, on its CPU. Other operations are
    on the clone's device, except summaries, which are on its CPU. A device set inside `model_fn`
    takes precedence, field by field.

    Args:
      config: Number of clones, and their devices.
      model_fn: Builds the model. It adds its losses to the collection LOSSES and its updates to
        UPDATE_OPS, as `tf.compat.v1.losses` and `tf.compat.v1.layers` do.
      args: Positional arguments, the same for each clone. Pass a `tf.compat.v1.data` iterator
        rather than a batch, so that each clone takes its own batch.
      kwargs: Keyword arguments, the same for each clone.

    Returns:
      The clones, in order.

    Raises:
      ValueError: A clone makes different variables than the first.
      TypeError: An argument is of another type.
    """
    _check_arguments(config, model_fn, args, kwargs)
    shared = SharedVariables()
    placer = config.variable_placer()
    clones = []
    for index in range(config.num_clones):
        device = config.clone_device(index)
        own_name = config.clone_scope(index)
        with (
            _clone_name_scope(own_name) as scope,
            v1.device(placer.on(device)),
            local_variables_on(current_task()),
            shared.copy(index, f"clone {index} ({device})", name_scope=scope if own_name else ""),
            compiled_by_xla() if config.xla else contextlib.nullcontext(),
        ):
            clones.append(Clone(model_fn(*(args or ()), **(kwargs or {})), scope, device))
    return clones


def _check_arguments(config: Any, model_fn: Any, args: Any, kwargs: Any) -> None:
    doing, is_config = "create clones", isinstance(config, DeploymentConfig)
    check_type(doing, "config", config, is_config, "a model_deploy.DeploymentConfig")
    check_type(doing, "model_fn", model_fn, callable(model_fn), "a function that builds the model")
    check_sequence(doing, "args", () if args is None else args, "a list, or None")
    is_mapping = kwargs is None or isinstance(kwargs, Mapping)
    check_type(doing, "kwargs", kwargs, is_mapping, "a dict, or None")


@contextlib.contextmanager
def _clone_name_scope(own_name: str) -> Iterator[str]:
    """Enters the name scope of a clone, if it has one, and yields the active scope."""
    if own_name:
        with v1.name_scope(own_name) as scope:
            yield scope
    else:
        outer = v1.get_default_graph().get_name_scope()
        yield f"{outer}/" if outer else ""
