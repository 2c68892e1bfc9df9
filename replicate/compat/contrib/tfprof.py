"""tf.contrib.tfprof: sizes and costs of a graph, as `tf.profiler` counts them."""

import types
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

profiler = tf.compat.v1.profiler

__all__ = [
    "FLOAT_OPS_OPTIONS",
    "PRINT_ALL_TIMING_MEMORY",
    "TRAINABLE_VARS_PARAMS_STAT_OPTIONS",
    "print_model_analysis",
    "write_op_log",
]

_Builder = profiler.ProfileOptionBuilder
TRAINABLE_VARS_PARAMS_STAT_OPTIONS: Mapping[str, Any] = types.MappingProxyType(
    _Builder.trainable_variables_parameter()
)
"""Counts the numbers in trainable variables."""
FLOAT_OPS_OPTIONS: Mapping[str, Any] = types.MappingProxyType(_Builder.float_operation())
"""Counts operations on floating-point numbers."""
PRINT_ALL_TIMING_MEMORY: Mapping[str, Any] = types.MappingProxyType(_Builder.time_and_memory())
"""Measures time and memory, by the `run_meta` of a step."""

write_op_log = profiler.write_op_log


def print_model_analysis(
    graph: Any,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: Mapping[str, Any] = TRAINABLE_VARS_PARAMS_STAT_OPTIONS,
) -> Any:
    """Prints what `tf.profiler.profile` counts in a graph, and returns it as a protocol buffer.

    Args:
      graph: The graph.
      run_meta: `tf.RunMetadata` of a step, for times and memory.
      op_log: Protocol buffer with types of operations.
      tfprof_cmd: "scope", "graph", "op" or "code".
      tfprof_options: Options as of `tf.profiler.ProfileOptionBuilder`.
    """
    return profiler.profile(graph, run_meta, op_log, tfprof_cmd, dict(tfprof_options))
