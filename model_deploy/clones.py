"""Clones: the copies of one model function, each on its device, all with the same variables.

Owns the call of the model function once per device: name scope, devices, shared variables. Does not
read what the calls left in collections; `optimize_clones` and `deploy` do, by a clone's name scope.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from model_deploy._types import Device
from model_deploy.config import DeploymentConfig
from model_deploy.local_variables import current_task, local_variables_on
from model_deploy.variables import SharedVariables
from model_deploy.xla import compiled_by_xla

v1 = tf.compat.v1


class Clone(NamedTuple):
    """One copy of a model.

    Attributes:
      outputs: What the model function returned.
      scope: Its name scope, as entered: `clone_0/`. For an only clone that of its surroundings, or
        "", which stands for all of the graph.
      device: The device that it computes on.
    """

    outputs: Any
    scope: str
    device: Device


def create_clones(
    config: DeploymentConfig,
    model_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Clone]:
    """Calls a model function once for each clone.

    Every variable, whatever makes it, goes to the parameter devices of `config` and is made by the
    first clone; its name does not depend on the number of clones. But local variables are made by
    each clone, on its CPU. All else is on the clone's device, save summaries, which are on its CPU.
    A device set inside `model_fn` wins, field by field.

    Args:
      config: How many clones, and where.
      model_fn: Builds the model. It leaves its losses in the collection LOSSES and its updates in
        UPDATE_OPS, as `tf.compat.v1.losses` and `tf.compat.v1.layers` do.
      args: Positional arguments, the same for each clone: a `tf.compat.v1.data` iterator, rather
        than a batch of it, is what gives each clone a batch of its own.
      kwargs: Keyword arguments, likewise.

    Returns:
      The clones, in order.

    Raises:
      ValueError: A clone makes other variables than the first.
    """
    shared = SharedVariables()
    placer = config.variable_placer()
    clones = []
    for index in range(config.num_clones):
        device = config.clone_device(index)
        own_name = config.clone_scope(index)
        with (
            _names(own_name) as scope,
            v1.device(placer.on(device)),
            local_variables_on(current_task()),
            shared.copy(index, f"clone {index} ({device})", name_scope=scope if own_name else ""),
            compiled_by_xla() if config.xla else contextlib.nullcontext(),
        ):
            clones.append(Clone(model_fn(*(args or ()), **(kwargs or {})), scope, device))
    return clones


@contextlib.contextmanager
def _names(own_name: str) -> Iterator[str]:
    """Enters a clone's own name scope, if it has one, and gives the scope that it then is in."""
    if own_name:
        with v1.name_scope(own_name) as scope:
            yield scope
    else:
        outer = v1.get_default_graph().get_name_scope()
        yield f"{outer}/" if outer else ""
