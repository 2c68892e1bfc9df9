"""K-FAC: Kronecker-factored natural gradient for TensorFlow graphs.

A `LayerCollection` holds which tensors and parameters form which layer. A `KfacOptimizer` trains
with it; a `PeriodicInvCovUpdateKfacOpt` also refreshes the curvature by itself. This module is the
whole public surface; everything else in the package is an implementation detail.

References:
  Martens & Grosse (2015), "Optimizing Neural Networks with Kronecker-factored Approximate
  Curvature", arXiv:1503.05671.
  Grosse & Martens (2016), "A Kronecker-factored approximate Fisher matrix for convolution
  layers", arXiv:1602.01407.
"""

try:
    import tensorflow as _tensorflow  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        "kfac needs TensorFlow, which is not installed: "
        "pip install tensorflow-cpu (or, for GPUs, 'tensorflow[and-cuda]')."
    ) from None

from kfac import (
    async_updates,
    cluster,
    curvature_matrix_vector_products,
    data_reader,
    estimator,
    fisher_blocks,
    fisher_factors,
    graph_search,
    keras,
    layer_collection,
    linalg,
    loss_functions,
    op_queue,
    optimizer,
    periodic,
    placement,
    utils,
    worker_roles,
)
from kfac.adaptive import adaptive
from kfac.async_updates import AsyncInvCovUpdateKfacOpt, AsyncUpdateHook
from kfac.batch_execute import batch_execute
from kfac.canned import for_canned
from kfac.cluster import ClusterKfacOpt
from kfac.config import CurvatureConfig
from kfac.curvature_matrix_vector_products import CurvatureMatrixVectorProductComputer
from kfac.layer_collection import LayerCollection, auto_register_layers, graph_layer_collection
from kfac.old_programs import bend_for_old_programs as _bend_for_old_programs
from kfac.op_queue import OpQueue, OpQueueHook
from kfac.optimizer import KfacOptimizer
from kfac.periodic import PeriodicInvCovUpdateKfacOpt
from kfac.precondition import precondition
from kfac.worker_roles import WorkerRole

__all__ = [
    "AsyncInvCovUpdateKfacOpt",
    "AsyncUpdateHook",
    "ClusterKfacOpt",
    "CurvatureConfig",
    "CurvatureMatrixVectorProductComputer",
    "KfacOptimizer",
    "LayerCollection",
    "OpQueue",
    "OpQueueHook",
    "PeriodicInvCovUpdateKfacOpt",
    "WorkerRole",
    "adaptive",
    "async_updates",
    "auto_register_layers",
    "batch_execute",
    "canned",
    "cluster",
    "curvature_matrix_vector_products",
    "data_reader",
    "estimator",
    "fisher_blocks",
    "fisher_factors",
    "for_canned",
    "graph_layer_collection",
    "graph_search",
    "keras",
    "layer_collection",
    "linalg",
    "loss_functions",
    "op_queue",
    "optimizer",
    "periodic",
    "placement",
    "precondition",
    "utils",
    "worker_roles",
]

_bend_for_old_programs()


def __dir__() -> list[str]:
    return sorted(__all__)
