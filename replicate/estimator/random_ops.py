"""Warning about random operations whose state a checkpoint cannot hold.

Owns the search for operations that keep their random state in the session, where it cannot be
saved. A resumed run draws their first numbers again. Stateless operations and `tf.random.Generator`
do not have this fault. Operations of initialisers and of tf.data do not count, since no step runs
them. `Estimator.train` warns; `replicate.step_seed` is the remedy.
"""

import tensorflow as tf

from replicate._types import Operation
from replicate.estimator.log import log
from replicate.graph_ops.functions import FunctionLibrary
from replicate.graph_ops.state import ancestors

v1 = tf.compat.v1

STATEFUL_TYPES = frozenset(
    {
        "FixedUnigramCandidateSampler",
        "FractionalAvgPool",
        "FractionalMaxPool",
        "LearnedUnigramCandidateSampler",
        "LogUniformCandidateSampler",
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomCrop",
        "RandomGamma",
        "RandomPoisson",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "SampleDistortedBoundingBox",
        "SampleDistortedBoundingBoxV2",
        "ThreadUnsafeUnigramCandidateSampler",
        "TruncatedNormal",
        "UniformCandidateSampler",
    }
)
"""Types of operations that keep a random state of their own."""

_SHOWN = 5


def warn_of_random_ops(train_op: Operation) -> bool:
    """Warns if a step has random operations with a state; returns True if it has."""
    found = stateful_random_ops(train_op)
    if not found:
        return False
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    log.warning(
        "Checkpoints cannot hold the state of these random operations: %s%s. A run that is resumed "
        "draws their first numbers again, and does not end with the numbers of an uninterrupted "
        "one. Use stateless operations with a seed made of the step, such as "
        "tf.nn.experimental.stateless_dropout(x, rate, seed=replicate.step_seed(1)).",
        ", ".join(found[:_SHOWN]),
        more,
    )
    return True


def stateful_random_ops(train_op: Operation) -> list[str]:
    """Returns the names of the random operations with a state that a step runs.

    An operation in the body of a function, such as a branch of `tf.cond`, is named after the
    operation that calls the function: "cond/RandomUniform".
    """
    library = FunctionLibrary(train_op.graph)
    found = []
    for op in ancestors([getattr(train_op, "op", train_op)]):
        if op.type in STATEFUL_TYPES:
            found.append(op.name)
        random = {node.name for node in library.nodes_below(op) if node.op in STATEFUL_TYPES}
        found.extend(f"{op.name}/{name}" for name in random)
    return sorted(found)
