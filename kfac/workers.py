"""Workers: equal processes that each have all of K-FAC's variables and sum what they need over all.

A wrapper of the training graph may leave an object there that sums over workers, see
`kfac.protocols.Workers`. Then the statistics of a batch are those of the batches of all workers,
and each worker computes a part of the inverses, which all get. Without such an object nothing
changes.
"""

from collections.abc import Sequence
from typing import cast

import tensorflow as tf

from kfac._types import Tensor
from kfac.protocols import WORKERS, Workers
from kfac.state import CPU, enclosing_graphs

v1 = tf.compat.v1


def current_workers() -> Workers | None:
    """Returns the workers of the default graph; None if each step is that of one process."""
    for graph in enclosing_graphs(v1.get_default_graph()):
        if found := graph.get_collection_ref(WORKERS):
            return cast(Workers, found[-1])
    return None


def summed(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns sums over all workers; without workers, the tensors.

    A worker that has no batch, because its input has ended before that of others, counts as zero.
    The tensors, of number types and known shapes, are sums over this worker's batch.
    """
    workers = current_workers()
    if workers is None:
        return list(tensors)
    has_batch = workers.share(averages=False)
    weighted = []
    for tensor in tensors:
        with v1.device(tensor.device):
            weighted.append(tf.math.multiply_no_nan(tensor, tf.cast(has_batch, tensor.dtype)))
    return workers.sum(weighted)


def mean_loss(loss: Tensor) -> Tensor:
    """Returns the mean loss, [], over all workers' batches, from that over this worker's."""
    workers = current_workers()
    return loss if workers is None else workers.total(loss, averages=True)


def agreed(flag: Tensor) -> Tensor:
    """Returns bool [], true if a flag is true on all workers that have a batch."""
    workers = current_workers()
    if workers is None:
        return flag
    with v1.device(CPU):
        return workers.agreed(tf.reshape(flag, [1]))[0]
