"""Names of Keras 3 layers: the same in every graph that the runtime builds.

Keras 3 counts automatic names (`dense_1`, `seed_generator_2`) per thread and not per graph. Its
counters can be neither read nor set without changing those of the user. A new thread has counters
of its own, so each model is built in one. Its names are those of a new process, and the user's own
layers keep theirs. Called by all that call a model_fn.
"""

import contextvars
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import tensorflow as tf

from model_deploy.local_variables import local_variables_on
from replicate._types import Device

v1 = tf.compat.v1

_Built = TypeVar("_Built")


def build_with_new_names(build: Callable[[], _Built], task: Device = "") -> _Built:
    """Builds a model in the default graph; automatic names of Keras layers count from the start.

    With Keras 3 it runs in a thread of its own. That has the default graph with its device scopes,
    the context variables, and Keras's dtype policy; other thread-local values, such as scopes of
    names and variables, begin anew. Earlier versions of Keras count per graph: without Keras 3 it
    runs in this thread.

    Args:
      build: Function that builds the model.
      task: Task of local variables, as `training_scope` yields it; "" leaves them where they are.

    Returns:
      The value that `build` returns. Its errors are raised here. A KeyboardInterrupt is raised when
      `build` has ended.
    """
    keras = sys.modules.get("keras")
    if keras is None or int(keras.__version__.partition(".")[0]) < 3:
        return build()
    graph = v1.get_default_graph()
    set_up = _keras_settings(keras.config)

    def build_in_thread() -> _Built:
        set_up()
        with graph.as_default(), local_variables_on(task):
            return build()

    with ThreadPoolExecutor(1, "model_fn") as thread:
        return thread.submit(contextvars.copy_context().run, build_in_thread).result()


def _keras_settings(config: Any) -> Callable[[], None]:
    """Returns a function that gives another thread this thread's settings of Keras."""
    policy = config.dtype_policy()
    filters_tracebacks = config.is_traceback_filtering_enabled()
    uses_flash_attention = config.is_flash_attention_enabled() is not False

    def set_up() -> None:
        config.set_dtype_policy(policy)
        if not filters_tracebacks:
            config.disable_traceback_filtering()
        if not uses_flash_attention:
            config.disable_flash_attention()

    return set_up
