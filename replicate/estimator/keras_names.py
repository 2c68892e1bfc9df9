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
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias, TypeVar

import tensorflow as tf

from replicate.estimator.keras_variables import known_variables

v1 = tf.compat.v1

Scope: TypeAlias = Callable[[], AbstractContextManager[None]]

_Built = TypeVar("_Built")


def build_with_new_names(build: Callable[[], _Built], scope: Scope = nullcontext) -> _Built:
    """Builds a model in the default graph; automatic names of Keras layers count from the start.

    With Keras 3 it runs in a thread of its own, with the default graph, the context variables, the
    filters of tracebacks and Keras's dtype policy of this one; other thread-local values begin
    anew. Optimizers take variables of Keras 3, see `keras_variables`. Earlier versions of Keras
    count per graph: without Keras 3 it runs in this thread.

    Args:
      build: Function that builds the model.
      scope: Makes the context of devices and variables in which this thread builds the graph. It is
        entered again in the other thread.

    Returns:
      The value that `build` returns. Its errors are raised here. A KeyboardInterrupt is raised when
      `build` has ended.
    """
    keras = sys.modules.get("keras")
    if keras is None or int(keras.__version__.partition(".")[0]) < 3:
        return build()
    graph = v1.get_default_graph()
    set_up = _settings(keras.config)

    def build_in_thread() -> _Built:
        set_up()
        # TensorFlow 1 shows the device scopes of a graph to all threads, TensorFlow 2 does not.
        with graph.as_default(), v1.device(None), scope(), known_variables():
            return build()

    with ThreadPoolExecutor(1, "model_fn") as thread:
        return thread.submit(contextvars.copy_context().run, build_in_thread).result()


def _settings(config: Any) -> Callable[[], None]:
    """Returns a function that gives another thread this thread's settings of Keras.

    Also that of TensorFlow for tracebacks.
    """
    policy = config.dtype_policy()
    filters_tracebacks = config.is_traceback_filtering_enabled()
    shows_all_frames = not tf.debugging.is_traceback_filtering_enabled()
    uses_flash_attention = config.is_flash_attention_enabled() is not False

    def set_up() -> None:
        config.set_dtype_policy(policy)
        if not filters_tracebacks:
            config.disable_traceback_filtering()
        if shows_all_frames:
            tf.debugging.disable_traceback_filtering()
        if not uses_flash_attention:
            config.disable_flash_attention()

    return set_up
