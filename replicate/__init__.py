"""Runs one Estimator `model_fn` on many devices, and everything it takes to train it.

`replicate_model_fn` and `TowerOptimizer` make a replicated model_fn of an ordinary one; `Estimator`
trains, evaluates and predicts with it.
"""

import importlib.metadata

try:
    import tensorflow as _tensorflow  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        "replicate needs TensorFlow, which is not installed: "
        "pip install 'replicate-model-fn[cpu]' (or [gpu])."
    ) from None

from replicate.check import Difference, ReplicationCheck, check_replication
from replicate.errors import NonFiniteError
from replicate.estimator import CheckpointError, Estimator, RunConfig, TrainingInterrupted
from replicate.loss_scale import DynamicLossScale
from replicate.model_fn import replicate_model_fn
from replicate.model_table import model_table
from replicate.spec import EstimatorSpec, ModeKeys
from replicate.tower_optimizer import TowerOptimizer
from replicate.towers import TowerContext, current_tower, per_tower_collection

__version__ = importlib.metadata.version("replicate-model-fn")

__all__ = [
    "CheckpointError",
    "Difference",
    "DynamicLossScale",
    "Estimator",
    "EstimatorSpec",
    "ModeKeys",
    "NonFiniteError",
    "ReplicationCheck",
    "RunConfig",
    "TowerContext",
    "TowerOptimizer",
    "TrainingInterrupted",
    "check_replication",
    "current_tower",
    "model_table",
    "per_tower_collection",
    "replicate_model_fn",
]
