"""Training operations in graphs and sessions of their own, whose steps benchmarks time."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks import harness

v1 = tf.compat.v1


class SessionProgram:
    """Training operation in its own graph and session.

    Attributes:
      graph: Graph with a global step.
      session: Session with initialized variables.
    """

    def __init__(self, build: Callable[[], Any], device: str = "", config: Any = None) -> None:
        """Calls a function in the new graph, which returns the training operation."""
        self.graph = tf.Graph()
        with self.graph.as_default(), v1.device(device):
            v1.set_random_seed(1)
            v1.train.create_global_step()
            self.train = build()
            self.initializer = v1.group(
                v1.global_variables_initializer(), v1.local_variables_initializer()
            )
        self.session = v1.Session(graph=self.graph, config=config)
        self.session.run(self.initializer)

    def run(self, steps: int) -> float:
        """Runs some steps and returns the mean seconds per step."""
        return harness.mean_seconds(lambda: self.session.run(self.train), steps)


def mean_cross_entropy(logits: Any, labels: Any) -> Any:
    """Returns the mean of the cross entropies of logits [..., classes] and labels, shape []."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def traced(session: Any, fetches: Any, feeds: Any = None) -> Any:
    """Runs a step and returns its `RunMetadata`, with the times and shapes of all operations."""
    metadata = v1.RunMetadata()
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    return metadata
