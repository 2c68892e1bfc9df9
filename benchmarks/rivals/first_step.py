"""Time from an empty graph to the end of the first training step.

Programs of this project and of its rivals use it, each in its own TensorFlow. This module imports
nothing but TensorFlow.
"""

import resource
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def measure(build: Callable[[], Any]) -> dict[str, float]:
    """Builds a program in a new graph, initializes its variables and runs a step.

    Args:
      build: Builds the program in the default graph; returns its training operation.

    Returns:
      "build", "initialize" and "first step" in seconds; "processor", the seconds that all of them
      took of all cores, which other load on the machine changes less; "operations" of the graph
      and, as "in functions", of its functions; "build MB", by which the peak memory of the process
      grew while the graph was built.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(tf.constant(0))  # One-time work of TensorFlow.
    before = _peak_bytes()
    processor = time.process_time()
    clock = [time.perf_counter()]
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        train = build()
        initializer = v1.global_variables_initializer()
        clock.append(time.perf_counter())
        grown = _peak_bytes() - before
        with v1.Session(graph=graph) as session:
            for operation in (initializer, train):
                session.run(operation)
                clock.append(time.perf_counter())
            processor = time.process_time() - processor
        definition = graph.as_graph_def()
    started, built, initialized, trained = clock
    return {
        "build": built - started,
        "initialize": initialized - built,
        "first step": trained - initialized,
        "processor": processor,
        "operations": len(definition.node),
        "in functions": sum(len(function.node_def) for function in definition.library.function),
        "build MB": grown / 1e6,
    }


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
